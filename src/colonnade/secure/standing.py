"""Columns that are encrypted once and stay with the peer: training on fixed blocks of records for far less.

In `dispatch` a target encrypts its weights and gradients anew at every step. Here it is the other way round: the
**source** encrypts its columns X (records × columns) under its own key and sends them once; at each step the **target**
multiplies them by what it holds, in the clear, and sends one masked message. No step needs an encryption but the zero
that hides the answer.

    source                                            target
    block = SentColumns(key_pair, plain)              block = KeptColumns(line, shape)
    block.send(line, width)                           block.receive()
    each step:
    share = block.receive_forward(line, width)        share = block.forward(fragment)        X · F
    share = block.receive_backward(line, width)       share = block.backward(prepared)       Xᵀ · G

Shares add up to the product modulo 2^59, as always. The target has its own at once, and may send the next forward
product right after a backward one.

**Who learns what.** The target holds ring-LWE encryptions of X: that is all that protects X here, and all it needs.
Fragment and gradient of the target are hidden from the source in the way that `bfv_masks` describes, to
`Line.statistical_bits` for each product and `Line.total_bits` over all: it is the target who counts them.

**Fragments** are uniform modulo 2^59, too large for a plain factor. They are cut into three signed digits of 20 bits,
and X is sent times 1, 2^20 and 2^40. A **gradient** must be a plain matrix (below 1/4 at scale 22).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.errors import DataError
from colonnade.secure.backend import Ciphertexts, EncryptedMatrix, KeyPair, PreparedMatrix, Product
from colonnade.secure.dispatch import Line
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, PlainMatrix, RingMatrix, check_plain, check_ring, signed, wrap

DIGITS = -(-RING_BITS // PLAIN_BITS)
"""How many plain numbers a ring element is cut into."""


@dataclass(frozen=True)
class BlockShape:
    """The shape of a block between one source and one target, known to both.

    Attributes:
        records, columns: of the source's columns.
        width: columns of the target's fragment and gradient.
    """

    records: int
    columns: int
    width: int

    @property
    def forward(self) -> Product:
        """The product Fᵀ · Xᵀ, in digits."""
        return Product(self.width, DIGITS * self.columns, self.records, standing=True)

    @property
    def backward(self) -> Product:
        """The product Gᵀ · X."""
        return Product(self.width, self.records, self.columns, standing=True)


class SentColumns:
    """The source's side of one block; the same encryption goes to all targets of the same width.

    Args:
        key_pair: this party's own.
        plain: its columns in this block, (records, columns).
    """

    def __init__(self, key_pair: KeyPair, plain: PlainMatrix) -> None:
        self._key_pair, self._plain = key_pair, check_plain(plain)
        self._encrypted: dict[Product, Ciphertexts] = {}

    def send(self, line: Line, width: int) -> None:
        """Send the columns, encrypted, to a target whose weights have `width` columns."""
        shape = self._shape(width)
        once = wrap(self._plain)
        line.send_ciphertexts(self._ciphertexts(_scaled(once).T, shape.forward))
        line.send_ciphertexts(self._ciphertexts(once, shape.backward))

    def forget(self) -> None:
        """Drop the ciphertexts once all targets have got them."""
        self._encrypted.clear()

    def receive_forward(self, line: Line, width: int) -> RingMatrix:
        """Return this party's share of X · F, (records, width), for the target's `forward`."""
        return _transposed(line.receive_share(self._shape(width).forward))

    def receive_backward(self, line: Line, width: int) -> RingMatrix:
        """Return this party's share of Xᵀ · G, (columns, width), for the target's `backward`."""
        return _transposed(line.receive_share(self._shape(width).backward))

    def _shape(self, width: int) -> BlockShape:
        records, columns = self._plain.shape
        return BlockShape(records, columns, width)

    def _ciphertexts(self, secret: RingMatrix, product: Product) -> Ciphertexts:
        if product not in self._encrypted:
            self._encrypted[product] = self._key_pair.encrypt(np.ascontiguousarray(secret), product)
        return self._encrypted[product]


class KeptColumns:
    """The target's side of one block of a source.

    Args:
        line: to the source.
        shape: of the block.
    """

    def __init__(self, line: Line, shape: BlockShape) -> None:
        self.line, self.shape = line, shape
        self._forward: EncryptedMatrix | None = None
        self._backward: EncryptedMatrix | None = None

    def receive(self) -> None:
        """Take what the source's `send` sends."""
        self._forward = self.line.keep(self.shape.forward)
        self._backward = self.line.keep(self.shape.backward)

    def forward(self, fragment: RingMatrix) -> RingMatrix:
        """Send the masked X · F; return this party's share of it, (records, width).

        Args:
            fragment: this party's share of the weights, (columns, width).
        """
        due = self.shape.columns, self.shape.width
        if check_ring(fragment).shape != due:
            raise DataError(f"a fragment of shape {fragment.shape} came where {due} was due", where=self.line.peer)
        digits = self.line.evaluator.prepare(_digits(fragment).T, memory=0)
        return _transposed(self.line.multiply(digits, self._kept(self._forward)))

    def backward(self, gradient: PreparedMatrix) -> RingMatrix:
        """Send the masked Xᵀ · G; return this party's share of it, (columns, width).

        Args:
            gradient: what `evaluator.prepare` made of the gradient, (records, width); any line's evaluator will do,
                and one preparation serves the blocks of all sources.
        """
        return _transposed(self.line.multiply(gradient, self._kept(self._backward), transposed=True))

    def _kept(self, factor: EncryptedMatrix | None) -> EncryptedMatrix:
        if factor is None:
            raise DataError("no columns have come yet", where=self.line.peer, remedy="call receive first")
        return factor


def _digits(ring: RingMatrix) -> PlainMatrix:
    """Return ring elements (rows, columns) as signed digits to the base 2^20: (digits · rows, columns)."""
    rest, digits = signed(ring), []
    half = 1 << (PLAIN_BITS - 1)
    for _ in range(DIGITS):
        digit = (rest + half & (1 << PLAIN_BITS) - 1) - half
        digits.append(digit)
        rest = (rest - digit) >> PLAIN_BITS
    return np.vstack(digits)


def _scaled(ring: RingMatrix) -> RingMatrix:
    """Return what the digits of the other factor are multiplied with: (rows, digits · columns)."""
    return wrap(np.hstack([ring << np.uint64(PLAIN_BITS * index) for index in range(DIGITS)]))


def _transposed(share: RingMatrix) -> RingMatrix:
    return np.ascontiguousarray(share.T)
