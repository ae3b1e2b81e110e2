"""What every backend of encrypted linear algebra offers, whichever encryption lies beneath.

Two parties: the **owner** of a secret matrix holds a `KeyPair`; the **holder** of a plain matrix has an `Evaluator`
made from the owner's public key.

    owner:   ciphertexts = key_pair.encrypt(secret, product)                       -> to the holder
    holder:  encrypted = evaluator.load(ciphertexts, product)
             masked = evaluator.to_shares(evaluator.premultiply(prepared, encrypted))
             masked.share is the holder's share; masked.ciphertexts                -> to the owner
    owner:   share = key_pair.receive_shares(masked.ciphertexts, product)

The two shares add up to plain times secret, modulo 2^59. Ciphertexts travel as bytes, one row of a uint8 matrix per
ciphertext; how many there are and how long they are follows from the backend and the `Product` alone, so they tell
nothing about values, and whatever does not fit is a `FrameError`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.registry import Registry
from colonnade.secure.ring import PlainMatrix, RingMatrix

Ciphertexts = npt.NDArray[np.uint8]
"""Ciphertexts as they travel: (number of ciphertexts, bytes of one)."""

LEAST_STATISTICAL_BITS = 40
"""What may be told about the plain matrix by anything but the shares: a statistical distance of at most 2^-40."""

DEFAULT_MEMORY = 1 << 30


@dataclass(frozen=True, order=True)
class Product:
    """The shape of one product, known to both parties: plain (rows × inner) times secret (inner × columns).

    Attributes:
        standing: the secret factor is sent once and kept for many products, so what it takes to send does not matter.
        diagonal: only the diagonal of the product is wanted, each row of the one with its column of the other.
    """

    rows: int
    inner: int
    columns: int
    standing: bool = False
    diagonal: bool = False

    def __post_init__(self) -> None:
        if min(self.rows, self.inner, self.columns) < 1:
            raise DataError(f"a product of shape {self.rows} × {self.inner} × {self.columns} is empty")
        if self.diagonal and self.rows != self.columns:
            raise DataError(f"a product of shape {self.rows} × {self.inner} × {self.columns} has no whole diagonal")

    @property
    def multiplications(self) -> int:
        """How many multiplications of numbers the product stands for."""
        return self.rows * self.inner * self.columns

    @property
    def secret_shape(self) -> tuple[int, int]:
        """Shape of the secret factor."""
        return self.inner, self.columns

    @property
    def result_shape(self) -> tuple[int, int]:
        """Shape of the product, or of its diagonal."""
        return self.rows, 1 if self.diagonal else self.columns


class Masked(NamedTuple):
    """A product turned into shares: what goes to the owner, and what stays with the holder."""

    ciphertexts: Ciphertexts
    share: RingMatrix
    statistical_bits: float


class EncryptedMatrix(ABC):
    """A secret factor, or a product with it, that the holder computes on and cannot read.

    Attributes:
        product: the product it is a factor or the result of.
        multiplied: whether it is the result.
    """

    product: Product
    multiplied: bool

    def __repr__(self) -> str:
        rows, columns = self.product.result_shape if self.multiplied else self.product.secret_shape
        return f"{type(self).__name__}({rows} × {columns})"


class PreparedMatrix(ABC):
    """A plain matrix, range-checked and encoded for many products; the encoding is kept within `memory` bytes.

    Beyond that it is made afresh where it is needed. Both directions, plain and transposed, count.
    """

    shape: tuple[int, int]
    memory: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]})"


class KeyPair(ABC):
    """The owner's side. Key material stays in memory or in a file only the user can read; it is never shown.

    Attributes:
        key_bits: size of the key, as the backend counts it.
    """

    key_bits: int

    @abstractmethod
    def public_bytes(self) -> bytes:
        """Return the public key: the only part of a key pair that is ever sent."""

    @abstractmethod
    def encrypt(self, secret: RingMatrix, product: Product) -> Ciphertexts:
        """Encrypt a secret factor of shape (product.inner, product.columns).

        Raises:
            DataError: the matrix is no ring matrix of this shape.
        """

    @abstractmethod
    def receive_shares(self, masked: Ciphertexts, product: Product) -> RingMatrix:
        """Decrypt what the holder's `to_shares` sent: the owner's share, of shape (product.rows, product.columns).

        Raises:
            FrameError: the bytes are no masked product of this shape.
        """

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the key pair to a new file that only the user can read (see `keyfile.write_key`)."""

    @classmethod
    @abstractmethod
    def open(cls, path: Path) -> Self:
        """Read a key pair that `save` wrote.

        Raises:
            ConfigError: the file is missing, damaged, of another backend, or readable by others.
        """

    def fingerprint(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of the public key."""
        return fingerprint(self.public_bytes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key_bits} bits, public key {self.fingerprint()})"


class Evaluator(ABC):
    """The holder's side, for one owner's public key. Use it as a context manager: it may own worker processes."""

    key_bits: int

    @abstractmethod
    def prepare(self, plain: PlainMatrix, memory: int = DEFAULT_MEMORY) -> PreparedMatrix:
        """Range-check a plain matrix and get it ready for many products, keeping at most `memory` bytes of encoding.

        Raises:
            DataError: it is no plain matrix (int64, two axes, below 2^20 in magnitude).
        """

    @abstractmethod
    def load(self, ciphertexts: Ciphertexts, product: Product) -> EncryptedMatrix:
        """Take in an encrypted secret factor.

        Raises:
            FrameError: the bytes are no ciphertexts of such a factor.
        """

    @abstractmethod
    def premultiply(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> EncryptedMatrix:
        """Return plain · secret, still encrypted; `product` must be (rows, columns of the plain matrix, …).

        Raises:
            DataError: the shapes do not fit, or the product could not be hidden well enough.
        """

    @abstractmethod
    def premultiply_transposed(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> EncryptedMatrix:
        """Return plainᵀ · secret, still encrypted; `product` must be (columns, rows of the plain matrix, …)."""

    @abstractmethod
    def to_shares(self, encrypted: EncryptedMatrix) -> Masked:
        """Turn an encrypted product into shares (HE2SS): fresh randomness, hidden noise, a mask; never without.

        `Masked.statistical_bits` is computed from the bounds of this very call.

        Raises:
            DataError: `encrypted` is no product, or fewer than `LEAST_STATISTICAL_BITS` would hide it.
        """

    def close(self) -> None:  # noqa: B027
        """End worker processes, if there are any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Backend(ABC):
    """One way to encrypt: makes key pairs for owners and evaluators for holders.

    Attributes:
        name: the name it is registered under.
    """

    name: str

    @abstractmethod
    def generate(self) -> KeyPair:
        """Make a new key pair."""

    @abstractmethod
    def open(self, path: Path) -> KeyPair:
        """Read a key pair from a file that `KeyPair.save` wrote."""

    @abstractmethod
    def evaluator(self, public: bytes, *, workers: int = 0) -> Evaluator:
        """Make the holder's side from an owner's public key.

        Args:
            public: what `KeyPair.public_bytes` gave.
            workers: how many worker processes may prepare and compute in the background; 0: none.

        Raises:
            FrameError: the bytes are no public key of this backend.
        """

    def diagonal_group(self, inner: int) -> int:
        """Return how many inner products of length `inner` a product may have on its diagonal."""
        return 1


BACKENDS: Registry[type[Backend]] = Registry("secure backend")
"""Backends by name: `BACKENDS["bfv"]()`; each module registers its own, `colonnade.secure` imports them all."""


def fingerprint(public: bytes) -> str:
    """Return the first 16 hex digits of the SHA-256 of a public key, for messages that people compare."""
    return hashlib.sha256(public).hexdigest()[:16]
