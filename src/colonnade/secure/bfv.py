"""The backend `bfv`: lattice encryption by Microsoft SEAL, with whole tiles of a matrix in each ciphertext.

Parameters and what they give: `bfv_words`; how a product is hidden: `bfv_masks`; how matrices are cut: `tiles`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import seal

from colonnade.errors import ConfigError, DataError, FrameError
from colonnade.secure.backend import (
    BACKENDS,
    DEFAULT_MEMORY,
    LEAST_STATISTICAL_BITS,
    Backend,
    Ciphertexts,
    EncryptedMatrix,
    Evaluator,
    KeyPair,
    Masked,
    PreparedMatrix,
    Product,
)
from colonnade.secure.bfv_encoding import INNER_TILES, ROW_TILES, BfvPrepared, blocks
from colonnade.secure.bfv_masks import Mask, statistical_bits
from colonnade.secure.bfv_pool import MaskPool
from colonnade.secure.bfv_public import PUBLIC_BYTES, make_public, read_public
from colonnade.secure.bfv_words import (
    KEY_PRIMES,
    PRIMES,
    SENT_PRIMES,
    check_wire,
    ciphertext_bytes,
    from_wire,
    library,
    to_wire,
)
from colonnade.secure.keyfile import read_key, write_key
from colonnade.secure.modular import Limbs, Words, add, multiply, multiply_pointwise, right_limbs
from colonnade.secure.ring import PlainMatrix, RingMatrix, check_ring
from colonnade.secure.tiles import DEGREE, Diagonal, Tile, choose_tile

KEY_BITS = sum(prime.bit_length() for prime in KEY_PRIMES)


def tile_for(product: Product) -> Tile:
    """Return how this backend cuts `product`.

    Raises:
        DataError: no way to cut it can be hidden well enough, or fits; that depends on the shape alone.
    """
    if product.diagonal and product.rows > Diagonal.largest(product.inner):
        raise DataError(f"the diagonal of {product} does not fit into a ciphertext")
    tile = Diagonal.of(product) if product.diagonal else choose_tile(product, statistical_bits)
    check_hidden(tile)
    return tile


def check_hidden(tile: Tile) -> float:
    """Return by how many statistical bits masks hide a product cut like this; fewer than 40 are a `DataError`."""
    bits = statistical_bits(tile)
    if bits < LEAST_STATISTICAL_BITS:
        raise DataError(
            f"{tile.product} could be hidden by {bits:.1f} statistical bits only",
            remedy=f"at least {LEAST_STATISTICAL_BITS} are needed: multiply fewer records at once",
        )
    return bits


class BfvKeyPair(KeyPair):
    """The owner's side of the backend `bfv`."""

    key_bits = KEY_BITS

    def __init__(self, secret: seal.SecretKey, public: bytes | None = None) -> None:
        here = library()
        self._secret = secret
        self._encryptor = seal.Encryptor(here.context, secret)
        self._public = public or make_public(self._encryptor)
        self._decryptor = seal.Decryptor(here.context, secret)

    @classmethod
    def generate(cls) -> Self:
        """Make a new key pair from the system's secure source."""
        return cls(seal.KeyGenerator(library().context).secret_key())

    def public_bytes(self) -> bytes:
        """Return the public key."""
        return self._public

    def encrypt(self, secret: RingMatrix, product: Product) -> Ciphertexts:
        """Encrypt a secret factor, with the secret key: that leaves less noise than the public one."""
        if check_ring(secret).shape != product.secret_shape:
            raise DataError(f"a secret matrix of shape {secret.shape} came where {product.secret_shape} was due")
        here, tile = library(), tile_for(product)
        octets = np.empty((tile.inputs, ciphertext_bytes(PRIMES)), np.uint8)
        for row, coefficients in zip(octets, tile.pack_secret(secret).reshape(-1, DEGREE), strict=True):
            row[:] = to_wire(here.words(self._encryptor.encrypt_symmetric(here.plaintext(coefficients))))
        return octets

    def receive_shares(self, masked: Ciphertexts, product: Product) -> RingMatrix:
        """Decrypt what the holder's `to_shares` sent."""
        here, tile = library(), tile_for(product)
        check_wire(masked, tile.outputs, SENT_PRIMES)
        polynomials = np.empty((tile.outputs, DEGREE), np.uint64)
        for coefficients, octets in zip(polynomials, masked, strict=True):
            encrypted = here.ciphertext(from_wire(octets, SENT_PRIMES))
            coefficients[:] = here.coefficients(self._decryptor.decrypt(encrypted))
        return tile.unpack_product(polynomials)

    def save(self, path: Path) -> None:
        """Write the key pair to a new file that only the user can read."""
        write_key(path, BfvBackend.name, self.public_bytes() + self._secret.to_string())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a key pair that `save` wrote."""
        content = read_key(path, BfvBackend.name)
        public = content[:PUBLIC_BYTES]
        try:
            read_public(public)
            secret = library().context.from_secret_str(content[PUBLIC_BYTES:])
        except (FrameError, RuntimeError, ValueError):
            raise ConfigError("the key file is damaged", where=str(path)) from None
        return cls(secret, public)


class BfvEncrypted(EncryptedMatrix):
    """Transformed ciphertexts as words: (column tiles, inner or row tiles, 2, primes, points, stride).

    A standing factor is kept as it enters products instead, 0.8 MB to a ciphertext.
    """

    def __init__(self, words: Words, tile: Tile, multiplied: bool) -> None:
        self.words, self.tile = words, tile
        self.product, self.multiplied = tile.product, multiplied
        self._factors: dict[tuple[int, int], list[Limbs]] = {}
        if self.product.standing and not multiplied:
            _, deep, across = tile.grid
            keys = [(column, inner) for column in range(across) for inner in blocks(deep, INNER_TILES)]
            self._factors = {(column, inner.start): _right_factors(words[column, inner]) for column, inner in keys}
            self.words = np.empty(0, np.uint64)

    def right_factors(self, column: int, inner: slice) -> list[Limbs]:
        """Return a block as a right factor for each prime."""
        kept = self._factors.get((column, inner.start))
        return kept or _right_factors(self.words[column, inner])


class BfvEvaluator(Evaluator):
    """The holder's side of the backend `bfv`."""

    key_bits = KEY_BITS

    def __init__(self, public: bytes, workers: int = 0) -> None:
        self._pool = MaskPool(read_public(public), public, workers)

    def prepare(self, plain: PlainMatrix, memory: int = DEFAULT_MEMORY) -> BfvPrepared:
        """Range-check a plain matrix; what is encoded of it during products is kept within `memory` bytes."""
        return BfvPrepared(plain, memory)

    def load(self, ciphertexts: Ciphertexts, product: Product) -> BfvEncrypted:
        """Take in an encrypted secret factor."""
        here, tile = library(), tile_for(product)
        check_wire(ciphertexts, tile.inputs, PRIMES)
        words = np.empty((tile.inputs, 2, len(PRIMES), DEGREE), np.uint64)
        for place, octets in zip(words, ciphertexts, strict=True):
            encrypted = here.ciphertext(from_wire(octets, PRIMES))
            here.evaluator.transform_to_ntt_inplace(encrypted)
            place[:] = here.words(encrypted)
        _, deep, across = tile.grid
        return BfvEncrypted(words.reshape(across, deep, *_word_shape(tile)), tile, multiplied=False)

    def premultiply(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> BfvEncrypted:
        """Return plain · secret, still encrypted."""
        return self._premultiply(prepared, encrypted, transposed=False)

    def premultiply_transposed(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix) -> BfvEncrypted:
        """Return plainᵀ · secret, still encrypted."""
        return self._premultiply(prepared, encrypted, transposed=True)

    def _premultiply(self, prepared: PreparedMatrix, encrypted: EncryptedMatrix, transposed: bool) -> BfvEncrypted:
        if not isinstance(prepared, BfvPrepared) or not isinstance(encrypted, BfvEncrypted) or encrypted.multiplied:
            raise DataError("a product takes a prepared matrix and a secret factor of the backend 'bfv'")
        tile, shape = encrypted.tile, prepared.shape[::-1] if transposed else prepared.shape
        if shape != (tile.product.rows, tile.product.inner):
            raise DataError(f"a plain matrix of shape {shape} does not fit {tile.product}")
        down, deep, across = tile.grid
        words = np.empty((across, down, *_word_shape(tile)), np.uint64)
        if isinstance(tile, Diagonal):
            for index, values in enumerate(prepared.diagonal(tile, transposed)):
                factor = encrypted.words[0, 0, :, index, :, 0]
                words[0, 0, :, index, :, 0] = multiply_pointwise(values, factor, PRIMES[index])
            return BfvEncrypted(words, tile, multiplied=True)
        for column in range(across):
            for inner in blocks(deep, INNER_TILES):
                factors = encrypted.right_factors(column, inner)
                for rows in blocks(down, ROW_TILES):
                    left = prepared.encoded(tile, transposed, rows, inner)
                    _accumulate(words[column, rows], left, factors, first=inner.start == 0)
        return BfvEncrypted(words, tile, multiplied=True)

    def to_shares(self, encrypted: EncryptedMatrix) -> Masked:
        """Turn an encrypted product into shares; each ciphertext gets a mask of its own and is switched down."""
        if not isinstance(encrypted, BfvEncrypted) or not encrypted.multiplied:
            raise DataError("only a product of the backend 'bfv' can be turned into shares")
        tile, bits = encrypted.tile, check_hidden(encrypted.tile)
        octets = np.empty((tile.outputs, ciphertext_bytes(SENT_PRIMES)), np.uint8)
        shares = np.empty((tile.outputs, DEGREE), np.uint64)
        for index, words in enumerate(encrypted.words.reshape(-1, 2, len(PRIMES), DEGREE)):
            mask = self._mask()
            shares[index] = mask.share
            octets[index] = to_wire(_hide(words, mask))
        return Masked(octets, tile.unpack_product(shares), bits)

    def _mask(self) -> Mask:
        return self._pool.take()

    @property
    def masks_ready(self) -> int:
        """How many masks the workers have in stock."""
        return self._pool.ready

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()


def _word_shape(tile: Tile) -> tuple[int, int, int, int]:
    return 2, len(PRIMES), tile.points, tile.stride


def _accumulate(words: Words, left: list[Limbs], right: list[Limbs], *, first: bool) -> None:
    """Set `words` (row tiles, 2, primes, points, stride) to a block's product, or add it if it is not the first."""
    down, _, _, points, stride = words.shape
    for index, prime in enumerate(PRIMES):
        product = multiply(left[index], right[index], prime).reshape(points, down, 2, stride).transpose(1, 2, 0, 3)
        words[:, :, index] = product if first else add(words[:, :, index], product, prime)


def _right_factors(words: Words) -> list[Limbs]:
    """Return ciphertexts (inner tiles, 2, primes, points, stride) as a right factor for each prime.

    Its shape is (points, inner tiles, 4 · stride).
    """
    inner, _, primes, points, stride = words.shape
    ordered = words.transpose(2, 3, 0, 1, 4).reshape(primes, points, inner, 2 * stride)
    return [right_limbs(factor) for factor in ordered]


def _hide(words: Words, mask: Mask) -> Words:
    """Return one ciphertext of a product with its mask, switched down to the primes that are sent."""
    here = library()
    encrypted = here.ciphertext(words, transformed=True)
    here.evaluator.add_inplace(encrypted, mask.zero)
    here.evaluator.transform_from_ntt_inplace(encrypted)
    here.evaluator.add_inplace(encrypted, mask.noise)
    here.evaluator.mod_switch_to_next_inplace(encrypted)
    return here.words(encrypted)


@BACKENDS.register("bfv")
class BfvBackend(Backend):
    """Lattice encryption (BFV, 128-bit security) with packed matrices: the default."""

    name = "bfv"

    def generate(self) -> BfvKeyPair:
        """Make a new key pair."""
        return BfvKeyPair.generate()

    def open(self, path: Path) -> BfvKeyPair:
        """Read a key pair from a file."""
        return BfvKeyPair.open(path)

    def evaluator(self, public: bytes, *, workers: int = 0) -> BfvEvaluator:
        """Make the holder's side from an owner's public key."""
        return BfvEvaluator(public, workers)

    def diagonal_group(self, inner: int) -> int:
        """Return how many inner products fit into one ciphertext."""
        return max(1, Diagonal.largest(inner))
