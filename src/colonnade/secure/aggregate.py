"""Masks that add up to zero: a target learns the sum over its sources and nothing about any one of them.

Every pair of parties shares a seed that the first of them (in the order of names) draws and sends over their channel.
For each target and step the seed becomes a stream of uniform ring elements; the first of a pair adds it to what it
gives to the target, the second subtracts it. To anybody without a pair's seed, what the two give is uniform but for
its sum. So the target and all sources but two have to collude to learn more than the sum over those two; with one
source there is nobody to hide behind, and its mask is zero.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.errors import ConfigError, DataError, FrameError
from colonnade.secure.dispatch import SEED
from colonnade.secure.ring import RING_BITS, RingMatrix, wrap
from colonnade.wire.channel import Channel

_SEED_BYTES = 32


class ZeroMasks:
    """One party's masks for all targets.

    Args:
        channel: this party's channel; seeds are as secret as its mutual TLS is.
        parties: all parties that may be sources, the same at each of them; this party is one of them.
    """

    def __init__(self, channel: Channel, parties: Iterable[str]) -> None:
        self.name, self.parties = channel.name, tuple(sorted(set(parties)))
        if self.name not in self.parties:
            raise ConfigError("is none of the parties that mask", where=self.name)
        self._channel = channel
        self._seeds: dict[str, bytes] = {}
        self._latest: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ZeroMasks({self.name} of {', '.join(self.parties)})"

    def exchange(self, step: int = 0) -> None:
        """Draw and send, or receive, the seed of every pair; all parties call this, a resumed run calls it again.

        Args:
            step: of the messages; must be larger when seeds are exchanged again in one run.
        """
        others = [party for party in self.parties if party != self.name]
        seeds = {}
        for party in (other for other in others if other > self.name):
            seeds[party] = os.urandom(_SEED_BYTES)
            self._channel.send(party, SEED, step, {"seed": np.frombuffer(seeds[party], np.uint8)})
        for party in (other for other in others if other < self.name):
            seeds[party] = self._receive(party, step)
        self._seeds, self._latest = seeds, {}

    def mask(self, target: str, step: int, shape: tuple[int, ...]) -> RingMatrix:
        """Return what this party adds to what it gives `target` at `step`.

        Over all parties but the target these masks add up to zero. Steps of one target must grow: a mask that was
        used twice would show a difference.

        Raises:
            DataError: the step was used before.
            ConfigError: the target is this party, or no seeds have been exchanged.
        """
        if target == self.name:
            raise ConfigError("a target gives nothing to itself", where=target)
        if step <= self._latest.get(target, -1):
            raise DataError(f"masks for step {step} were used before", where=target, remedy="let steps grow")
        sources = [party for party in self.parties if party not in (target, self.name)]
        if not all(party in self._seeds for party in sources):
            raise ConfigError("no seeds have been exchanged yet", where=self.name, remedy="call exchange first")
        self._latest[target] = step
        total = np.zeros(shape, np.uint64)
        for party in sources:
            stream = _stream(self._seeds[party], target, step, shape)
            total = total + stream if self.name < party else total - stream
        return wrap(total)

    def _receive(self, party: str, step: int) -> bytes:
        tensors = self._channel.recv(party, SEED, step).tensors
        seed = tensors.get("seed")
        if seed is None or len(tensors) != 1 or seed.dtype != np.uint8 or seed.shape != (_SEED_BYTES,):
            raise FrameError(f"'{SEED}' does not hold one seed of {_SEED_BYTES} bytes", where=party)
        return seed.tobytes()


def _stream(seed: bytes, target: str, step: int, shape: tuple[int, ...]) -> RingMatrix:
    """Return uniform ring elements: AES-256 in counter mode under a key that belongs to one target and step."""
    label = f"colonnade zero mask\0{step}\0{target}".encode()
    key = hmac.digest(seed, label, hashlib.sha256)
    count = int(np.prod(shape))
    octets = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    words = np.frombuffer(octets, "<u8").astype(np.uint64) >> np.uint64(64 - RING_BITS)
    return words.reshape(shape)
