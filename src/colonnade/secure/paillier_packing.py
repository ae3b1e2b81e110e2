"""Many numbers in one Paillier plaintext: slots wide enough for a product, its mask and a carry.

A slot holds u = v + 2^value_bits + mask, where |v| < 2^value_bits is the product as a whole number (the secret factor
counts as -2^58 … 2^58 - 1, nothing wraps inside a slot) and the mask is uniform in all bits of the slot but one. So u
is positive and fits the slot; none reaches into the next. The owner's share is u modulo 2^59, the holder's the negative
of what was added; their sum is v modulo 2^59, which is the product in the ring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.secure.backend import LEAST_STATISTICAL_BITS, Product
from colonnade.secure.paillier_residues import DISTANCE_BITS
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, RingMatrix, random_bytes, signed, wrap

_WORD = 8
_HALF = 1 << (RING_BITS - 1)


@dataclass(frozen=True)
class Layout:
    """How the columns of a product lie in plaintexts: `slots` of `width` bytes, `blocks` plaintexts to a row."""

    rows: int
    columns: int
    value_bits: int
    slots: int
    width: int

    @classmethod
    def of(cls, product: Product, key_bits: int) -> Layout:
        """Return the layout with the most slots that hides a product with `LEAST_STATISTICAL_BITS`.

        Raises:
            DataError: not even one slot fits.
        """
        value_bits = RING_BITS - 1 + PLAIN_BITS + (product.inner - 1).bit_length()
        for slots in range((key_bits - 1) // (8 * _WORD), 0, -1):
            layout = cls(product.rows, product.columns, value_bits, slots, (key_bits - 1) // 8 // slots)
            if layout.statistical_bits >= LEAST_STATISTICAL_BITS:
                return layout
        raise DataError(f"a sum of {product.inner} products does not fit a key of {key_bits} bits")

    @property
    def blocks(self) -> int:
        """How many ciphertexts one row takes."""
        return -(-self.columns // self.slots)

    @property
    def statistical_bits(self) -> float:
        """Bits that hide the whole product: the distances of all its slots and of all its residues together.

        They follow from the shape alone, so a refusal tells nothing about values.
        """
        slot = 8 * self.width - self.value_bits - 2
        return -math.log2(self.rows * self.blocks * (self.slots * 2.0**-slot + 2.0**-DISTANCE_BITS))

    def pack(self, secret: RingMatrix) -> list[int]:
        """Return the plaintexts of a secret factor, row after row; they may be negative."""
        words = np.full((len(secret), self.blocks * self.slots), _HALF, np.uint64)  # stands for zero
        words[:, : self.columns] = (signed(secret) + _HALF).view(np.uint64)
        slots = np.zeros((words.size, self.width), np.uint8)
        slots[:, :_WORD] = words.astype("<u8").reshape(-1, 1).view(np.uint8)
        shift = self._everywhere(_HALF)
        return [number - shift for number in self._numbers(slots)]

    def masks(self) -> tuple[list[int], RingMatrix]:
        """Return what to add to the plaintexts of a product, and the holder's share."""
        random = random_bytes(self.rows * self.blocks * self.slots * self.width)
        slots = np.frombuffer(random, np.uint8).reshape(-1, self.width).copy()
        slots[:, -1] &= 0x7F
        shift = self._everywhere(1 << self.value_bits)  # a multiple of 2^59: it does not show in the shares
        words = self._words(slots)
        return [number + shift for number in self._numbers(slots)], wrap(np.uint64(0) - words)

    def unpack(self, plaintexts: list[int]) -> RingMatrix:
        """Return the numbers in the slots of a decrypted product, modulo 2^59."""
        size = self.slots * self.width
        kept = (1 << 8 * size) - 1
        text = b"".join((number & kept).to_bytes(size, "little") for number in plaintexts)
        return wrap(self._words(np.frombuffer(text, np.uint8).reshape(-1, self.width)))

    def _words(self, slots: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        words = np.ascontiguousarray(slots[:, :_WORD]).view("<u8").astype(np.uint64)
        return words.reshape(self.rows, -1)[:, : self.columns]

    def _numbers(self, slots: npt.NDArray[np.uint8]) -> list[int]:
        return [int.from_bytes(block.tobytes(), "little") for block in slots.reshape(-1, self.slots * self.width)]

    def _everywhere(self, number: int) -> int:
        return sum(number << 8 * self.width * slot for slot in range(self.slots))
