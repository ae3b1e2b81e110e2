"""Encrypted products between two parties over a channel: the secure dispatch.

The **owner** has a secret matrix (weights, or the gradient of what it decodes) and a key pair; the **holder** has plain
columns. Each party has one `Line` per peer and can be both:

    owner                                            holder
    line.send_secret(weights, product)               share = line.answer(prepared, columns)
    share = line.receive_share(product)

Forward, `product` is (records, columns, …) and the shares add up to X · W. Backward, it is (columns, records, …), the
holder answers with `transposed=True`, and they add up to Xᵀ · G. Send to all peers before answering any, and answer
all before receiving: then nobody waits in a circle. A factor that does not change is sent once and kept:

    line.send_secret(weights, product)               kept = line.keep(product)
    share = line.receive_share(product)              share = line.multiply(prepared, kept)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log2
from typing import Any, Self

import numpy as np

from colonnade.errors import ConfigError, FrameError
from colonnade.secure.backend import (
    Backend,
    Ciphertexts,
    EncryptedMatrix,
    Evaluator,
    KeyPair,
    PreparedMatrix,
    Product,
    fingerprint,
)
from colonnade.secure.ring import RING_BITS, RingMatrix
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message

KEY, SECRET, MASKED, SHARE = "secure.key", "secure.secret", "secure.masked", "secure.share"
SEED = "secure.seed"
SECURE_KINDS = (KEY, SECRET, MASKED, SHARE, SEED)
"""Every kind of message that encrypted products and masked sums send, for a channel's list of allowed kinds."""


class Line:
    """One party's side of all encrypted products with one peer.

    Steps grow by one with each message of a kind; both ends count, and shapes are agreed beforehand, so messages carry
    nothing but ciphertexts and masked shares.

    Args:
        channel: this party's channel; over a network its mutual TLS is what ties a public key to a party.
        peer: the other party.
        backend: the backend that both use.
        key_pair: this party's own.
        workers: worker processes for the products that this party computes.
        first_step: step of the first message of each kind; a resumed run goes on where the last one ended.

    Attributes:
        products: how many products this party has answered.
        statistical_bits: the fewest bits that hid one of them.
        distance: the statistical distances of all of them, added up; a resumed run goes on from what it has kept.
    """

    def __init__(
        self,
        channel: Channel,
        peer: str,
        backend: Backend,
        key_pair: KeyPair,
        *,
        workers: int = 0,
        first_step: int = 0,
    ) -> None:
        self.peer, self.backend = peer, backend
        self._channel, self._key_pair, self._workers = channel, key_pair, workers
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._first_step = first_step
        self._evaluator: Evaluator | None = None
        self.statistical_bits = float("inf")
        self.products = 0
        self.distance = 0.0

    def __repr__(self) -> str:
        return f"Line({self._channel.name} - {self.peer}, {self.backend.name})"

    def send_key(self) -> None:
        """Send this party's public key."""
        key = np.frombuffer(self._key_pair.public_bytes(), np.uint8)
        self._send(KEY, {"key": key}, backend=self.backend.name)

    def receive_key(self) -> str:
        """Take the peer's public key; return its fingerprint, for people who compare it on another way."""
        message = self._receive(KEY)
        if message.meta.get("backend") != self.backend.name:
            what = f"uses another secure backend than '{self.backend.name}'"
            raise ConfigError(what, where=self.peer, remedy="agree on one in the federation file", told=True)
        public = _tensor(message, "key", np.dtype(np.uint8), axes=1).tobytes()
        with _blaming(self.peer):
            self._evaluator = self.backend.evaluator(public, workers=self._workers)
        return fingerprint(public)

    @property
    def evaluator(self) -> Evaluator:
        """Computes under the peer's key, once that has come."""
        if self._evaluator is None:
            raise ConfigError("no public key has come yet", where=self.peer, remedy="call receive_key first")
        return self._evaluator

    def send_secret(self, secret: RingMatrix, product: Product) -> None:
        """As the owner: send a secret factor, encrypted."""
        self.send_secrets([secret], product)

    def send_secrets(self, secrets: Sequence[RingMatrix], product: Product) -> None:
        """As the owner: send several secret factors for products of one shape in one message."""
        self.send_ciphertexts(np.concatenate([self._key_pair.encrypt(secret, product) for secret in secrets]))

    def send_ciphertexts(self, ciphertexts: Ciphertexts) -> None:
        """As the owner: send a secret factor that this party's key pair has encrypted already.

        One encryption may go to several peers: each of them alone could have passed it on to the others, so they
        learn together what each learns anyhow, nothing; and each hides its own answer.
        """
        self._send(SECRET, {"ciphertexts": ciphertexts})

    def answer(self, prepared: PreparedMatrix, columns: int, *, transposed: bool = False) -> RingMatrix:
        """As the holder: multiply what the owner sends, send the masked product back, return this party's share.

        Args:
            prepared: this party's plain columns, from `evaluator.prepare`.
            columns: columns of the secret factor.
            transposed: whether the product is plainᵀ · secret.
        """
        return self.answer_all([prepared], columns, transposed=transposed)[0]

    def answer_all(
        self, prepared: Sequence[PreparedMatrix], columns: int, *, transposed: bool = False, diagonal: bool = False
    ) -> list[RingMatrix]:
        """As the holder: answer to `send_secrets`, with one plain matrix for each secret one."""
        received = self._receive_ciphertexts(SECRET, len(prepared))
        multiply = self.evaluator.premultiply_transposed if transposed else self.evaluator.premultiply
        answers = []
        for plain, ciphertexts in zip(prepared, received, strict=True):
            rows, inner = plain.shape[::-1] if transposed else plain.shape
            with _blaming(self.peer):
                encrypted = self.evaluator.load(ciphertexts, Product(rows, inner, columns, diagonal=diagonal))
            answers.append(self.evaluator.to_shares(multiply(plain, encrypted)))
            self._count(answers[-1].statistical_bits)
        self._send(MASKED, {"ciphertexts": np.concatenate([masked.ciphertexts for masked in answers])})
        return [masked.share for masked in answers]

    def keep(self, product: Product) -> EncryptedMatrix:
        """As the holder: take a secret factor that the owner sends, to multiply it as often as wanted."""
        (ciphertexts,) = self._receive_ciphertexts(SECRET, 1)
        with _blaming(self.peer):
            return self.evaluator.load(ciphertexts, product)

    def multiply(self, prepared: PreparedMatrix, kept: EncryptedMatrix, *, transposed: bool = False) -> RingMatrix:
        """As the holder: send the masked product of a plain matrix and a kept factor; return this party's share."""
        multiply = self.evaluator.premultiply_transposed if transposed else self.evaluator.premultiply
        masked = self.evaluator.to_shares(multiply(prepared, kept))
        self._count(masked.statistical_bits)
        self._send(MASKED, {"ciphertexts": masked.ciphertexts})
        return masked.share

    def receive_share(self, product: Product) -> RingMatrix:
        """As the owner: take the masked product, return this party's share of it."""
        return self.receive_shares(1, product)[0]

    def receive_shares(self, count: int, product: Product) -> list[RingMatrix]:
        """As the owner: take the answers to `send_secrets`."""
        with _blaming(self.peer):
            received = self._receive_ciphertexts(MASKED, count)
            return [self._key_pair.receive_shares(ciphertexts, product) for ciphertexts in received]

    def send_share(self, share: RingMatrix) -> None:
        """Give a share away: the peer, who has the other, is to see the sum."""
        self._send(SHARE, {"share": share})

    def take_share(self, shape: tuple[int, int]) -> RingMatrix:
        """Take a share that the peer gives away."""
        share = _tensor(self._receive(SHARE), "share", np.dtype(np.uint64), axes=2)
        if share.shape != shape or (share >> np.uint64(RING_BITS)).any():
            raise FrameError(f"no share of shape {shape}", where=self.peer)
        return share

    @property
    def total_bits(self) -> float:
        """Bits that hide this party's plain matrices over all its answers together: their distances add up."""
        return -log2(self.distance) if self.distance else float("inf")

    def _count(self, bits: float) -> None:
        self.products += 1
        self.statistical_bits = min(self.statistical_bits, bits)
        self.distance += 2.0**-bits

    def close(self) -> None:
        """End worker processes."""
        if self._evaluator is not None:
            self._evaluator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _receive_ciphertexts(self, kind: str, count: int) -> list[Ciphertexts]:
        stacked = _tensor(self._receive(kind), "ciphertexts", np.dtype(np.uint8), axes=2)
        if not stacked.size or stacked.shape[0] % count:
            raise FrameError(f"{stacked.shape[0]} ciphertexts are not {count} matrices", where=self.peer)
        return np.split(stacked, count)

    def _send(self, kind: str, tensors: dict[str, Array], **meta: str) -> None:
        self._channel.send(self.peer, kind, self._next(self._sent, kind), tensors, meta)

    def _receive(self, kind: str) -> Message:
        return self._channel.recv(self.peer, kind, self._next(self._received, kind))

    def _next(self, counter: Counter[str], kind: str) -> int:
        counter[kind] += 1
        return self._first_step + counter[kind] - 1


@contextmanager
def _blaming(peer: str) -> Iterator[None]:
    """Name the peer in errors about bytes that it sent."""
    try:
        yield
    except FrameError as error:
        raise FrameError(error.what, where=peer, remedy=error.remedy) from None


def _tensor(message: Message, name: str, dtype: np.dtype[Any], axes: int) -> Array:
    """Return the one tensor of a message, if it is what was due."""
    tensor = message.tensors.get(name)
    if tensor is None or len(message.tensors) != 1 or tensor.dtype != dtype or tensor.ndim != axes:
        raise FrameError(f"'{message.kind}' does not hold one tensor '{name}' of {dtype}", where=message.sender)
    return tensor
