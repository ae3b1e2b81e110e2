"""What time it is at a peer: one question under the same mutual TLS as everything else, answered by a time alone."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from dataclasses import dataclass
from typing import Any

from colonnade.errors import AuthenticationError, DeadlineError, FrameError, RefusedError
from colonnade.wire.connect import CLOCK_PATH, TIME, trusting_channel
from colonnade.wire.loop import run_on_loop
from colonnade.wire.preflight import NotAcceptedError, Peer, describe, knock, tls_context
from colonnade.wire.tls import Credentials, Material

import grpc  # isort: skip  (after the wire, which keeps it quiet)

PATIENCE = 3.0
"""Seconds that a peer has for the handshakes and the answers together."""
_TIMES = 3
_REFUSALS = {
    grpc.StatusCode.PERMISSION_DENIED: "it tells only those who take part in its run",
    grpc.StatusCode.UNIMPLEMENTED: "its Colonnade is older and does not tell the time",
}


@dataclass(frozen=True)
class Skew:
    """How far a peer's clock is from ours.

    Attributes:
        seconds: ahead of ours; negative if it is behind.
        within: the true value is at most so far from `seconds`: half of the round trip.
    """

    seconds: float
    within: float

    def __str__(self) -> str:
        """Return it as people read it; the doubt is rounded up.

        >>> print(Skew(0.031, 0.0052), Skew(-7200.0, 0.5), Skew(0.0002, 0.0004), sep="; ")
        0.03 s ahead (± 0.01 s); 7,200.00 s behind (± 0.50 s); no difference seen (± 0.01 s)
        """
        doubt = f"(± {math.ceil(100 * self.within) / 100:.2f} s)"
        if abs(self.seconds) <= self.within:
            return f"no difference seen {doubt}"
        return f"{abs(self.seconds):,.2f} s {'ahead' if self.seconds > 0 else 'behind'} {doubt}"


def ask_clock(own: str, party: str, peer: Peer, credentials: Credentials, patience: float = PATIENCE) -> Skew:
    """Return how far the clock of `party` is from ours; of a few answers the one with the shortest round trip counts.

    Args:
        own: who asks.
        party: who is asked; it listens only while it takes part in something.
        peer: where it listens, and its fingerprint.
        credentials: the asking party's.
        patience: seconds for everything.

    Raises:
        AuthenticationError: it, or we, did not show the right certificate.
        DeadlineError: nobody answers there in time.
        RefusedError: it does not tell us.
        FrameError: what it tells is no time.
    """
    material, context = credentials.load(own), tls_context(credentials)
    try:
        # The wait within is the shorter one, so that the work ends by itself.
        return run_on_loop(_ask(party, peer, context, material, patience), 2 * patience)
    except NotAcceptedError as error:
        raise AuthenticationError(str(error), where=party) from None
    except OSError as error:
        what = f"cannot be reached at {peer.address}: {describe(error)}"
        raise DeadlineError(what, where=party, remedy="it may not have started yet") from None
    except grpc.aio.AioRpcError as error:
        if error.code() in _REFUSALS:
            raise RefusedError(_REFUSALS[error.code()], where=party) from None
        raise DeadlineError("the connection broke", where=party) from None


async def _ask(party: str, peer: Peer, context: ssl.SSLContext, material: Material, patience: float) -> Skew:
    async with asyncio.timeout(patience):
        certificate = await knock(party, peer, context, patience)
        async with trusting_channel(party, peer, certificate, material) as channel:
            # Otherwise the first round trip would hold the whole handshake.
            await channel.channel_ready()
            question = channel.unary_unary(CLOCK_PATH)
            found = [await _skew(party, question) for _ in range(_TIMES)]
    return min(found, key=lambda skew: skew.within)


async def _skew(party: str, question: Any) -> Skew:
    # The round trip is measured by a clock that nobody sets meanwhile.
    asked_at, started = time.time(), time.perf_counter()
    answer = await question(b"")
    half = (time.perf_counter() - started) / 2
    if len(answer) != TIME.size or not math.isfinite(TIME.unpack(answer)[0]):
        raise FrameError("its answer is no time", where=party)
    return Skew(TIME.unpack(answer)[0] - (asked_at + half), half)
