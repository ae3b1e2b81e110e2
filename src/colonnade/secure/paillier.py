"""The backend `paillier`: packed slots on gmpy2; slower than `bfv`, on an older and smaller foundation.

Keys have 3072 bits, about 128 bits of security. `paillier-2048`, about 112 bits, has to be asked for by that name.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from gmpy2 import mpz

from colonnade.errors import ConfigError, DataError
from colonnade.secure.backend import (
    BACKENDS,
    DEFAULT_MEMORY,
    Backend,
    Ciphertexts,
    EncryptedMatrix,
    Evaluator,
    KeyPair,
    Masked,
    PreparedMatrix,
    Product,
)
from colonnade.secure.keyfile import read_key, write_key
from colonnade.secure.paillier_key import KEY_BITS, PrivateKey, PublicKey, suits
from colonnade.secure.paillier_packing import Layout
from colonnade.secure.paillier_product import premultiply
from colonnade.secure.paillier_threads import in_threads
from colonnade.secure.ring import PlainMatrix, RingMatrix, check_plain, check_ring

_NAME = "paillier"


class PaillierEncrypted(EncryptedMatrix):
    """Ciphertexts of a factor or a product, row after row, `layout.blocks` to a row."""

    def __init__(
        self, public: PublicKey, product: Product, layout: Layout, ciphertexts: list[mpz], *, multiplied: bool
    ) -> None:
        self.public, self.product, self.layout = public, product, layout
        self.ciphertexts, self.multiplied = ciphertexts, multiplied


class PaillierPrepared(PreparedMatrix):
    """A plain matrix; there is nothing to encode, `memory` bounds the tables of one product."""

    def __init__(self, plain: PlainMatrix, memory: int) -> None:
        self.plain, self.memory = plain, memory
        self.shape = (plain.shape[0], plain.shape[1])


class PaillierKeyPair(KeyPair):
    """The owner's primes."""

    def __init__(self, private: PrivateKey) -> None:
        self._private, self.key_bits = private, private.public.bits

    def public_bytes(self) -> bytes:  # noqa: D102
        return self._private.public.to_bytes()

    def encrypt(self, secret: RingMatrix, product: Product) -> Ciphertexts:  # noqa: D102
        if check_ring(secret).shape != product.secret_shape:
            raise DataError(f"the secret matrix has shape {secret.shape}, not {product.secret_shape}")
        plaintexts = Layout.of(product, self.key_bits).pack(secret)
        return self._private.public.serialize(self._private.encrypt(plaintexts))

    def receive_shares(self, masked: Ciphertexts, product: Product) -> RingMatrix:  # noqa: D102
        layout = Layout.of(product, self.key_bits)
        ciphertexts = self._private.public.parse(masked, product.rows * layout.blocks)
        return layout.unpack(self._private.decrypt(ciphertexts))

    def save(self, path: Path) -> None:  # noqa: D102
        write_key(path, _NAME, self._private.to_bytes())

    @classmethod
    def open(cls, path: Path) -> Self:  # noqa: D102
        content = read_key(path, _NAME)
        half = len(content) // 2
        p, q = (mpz(int.from_bytes(part, "big")) for part in (content[:half], content[half:]))
        if 8 * len(content) not in KEY_BITS or not suits(p, q, 8 * len(content)):
            raise ConfigError("the key file is damaged", where=str(path), remedy="make a new key pair")
        return cls(PrivateKey(p, q))


class PaillierEvaluator(Evaluator):
    """The holder's side; `workers` counts threads."""

    def __init__(self, public: PublicKey, workers: int) -> None:
        self._public, self._threads, self.key_bits = public, max(1, workers), public.bits

    def prepare(self, plain: PlainMatrix, memory: int = DEFAULT_MEMORY) -> PaillierPrepared:  # noqa: D102
        return PaillierPrepared(check_plain(plain).copy(), memory)

    def load(self, ciphertexts: Ciphertexts, product: Product) -> PaillierEncrypted:  # noqa: D102
        layout = Layout.of(product, self.key_bits)
        numbers = self._public.parse(ciphertexts, product.inner * layout.blocks)
        return PaillierEncrypted(self._public, product, layout, numbers, multiplied=False)

    def premultiply(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> PaillierEncrypted:  # noqa: D102
        return self._multiply(prepared, encrypted, transposed=False)

    def premultiply_transposed(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> PaillierEncrypted:  # noqa: D102
        return self._multiply(prepared, encrypted, transposed=True)

    def to_shares(self, encrypted: EncryptedMatrix) -> Masked:  # noqa: D102
        own = self._own(encrypted, multiplied=True)
        public = self._public
        masks, share = own.layout.masks()
        residues = self._fresh_residues(len(masks))
        parts = list(zip(own.ciphertexts, masks, residues, strict=True))
        hidden = in_threads(lambda part: [public.add_plain(*each) for each in part], parts, self._threads)
        return Masked(public.serialize(hidden), share, own.layout.statistical_bits)

    def _multiply(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix, *, transposed: bool) -> PaillierEncrypted:
        own = self._own(encrypted, multiplied=False)
        if not isinstance(prepared, PaillierPrepared):
            raise DataError("the plain matrix was prepared by another backend")
        plain = prepared.plain.T if transposed else prepared.plain
        if plain.shape != (own.product.rows, own.product.inner):
            raise DataError(f"the plain matrix is {plain.shape[0]} × {plain.shape[1]}, the product {own.product}")
        blocks = own.layout.blocks
        columns = [
            premultiply(plain, own.ciphertexts[block::blocks], self._public.square, self._threads, prepared.memory)
            for block in range(blocks)
        ]
        rows = [ciphertext for row in zip(*columns, strict=True) for ciphertext in row]
        return PaillierEncrypted(self._public, own.product, own.layout, rows, multiplied=True)

    def _own(self, encrypted: EncryptedMatrix, *, multiplied: bool) -> PaillierEncrypted:
        if not isinstance(encrypted, PaillierEncrypted) or encrypted.public.n != self._public.n:
            raise DataError("the matrix was encrypted under another key")
        if encrypted.multiplied != multiplied:
            raise DataError("the encrypted matrix is " + ("no product" if multiplied else "a product already"))
        return encrypted

    def _fresh_residues(self, count: int) -> list[mpz]:
        return self._public.fresh_residues(count, self._threads)


@BACKENDS.register(_NAME)
class Paillier(Backend):
    """Packed Paillier, 3072 bits."""

    name = _NAME
    key_bits: ClassVar[int] = KEY_BITS[0]

    def generate(self) -> PaillierKeyPair:  # noqa: D102
        return PaillierKeyPair(PrivateKey.generate(self.key_bits))

    def open(self, path: Path) -> PaillierKeyPair:  # noqa: D102
        key_pair = PaillierKeyPair.open(path)
        if key_pair.key_bits != self.key_bits:
            raise ConfigError(
                f"the key has {key_pair.key_bits} bits, not {self.key_bits}",
                where=str(path),
                remedy="make a new key pair, or ask for the backend of that size by its name",
            )
        return key_pair

    def evaluator(self, public: bytes, *, workers: int = 0) -> PaillierEvaluator:  # noqa: D102
        return PaillierEvaluator(PublicKey.from_bytes(public, self.key_bits), workers)


@BACKENDS.register("paillier-2048")
class Paillier2048(Paillier):
    """Packed Paillier, 2048 bits: about 112 bits of security; for comparison with published systems."""

    name = "paillier-2048"
    key_bits = KEY_BITS[1]
