"""What hides a product before it goes back to the owner of the key; made ahead of time, it needs no input.

A mask is a fresh encryption of zero under the owner's public key (so that the product's ciphertext no longer depends on
the ones it was made from), plus flooding noise (so that the noise of the product drowns), minus uniform ring elements
in all coefficients (so that what is decrypted is uniform).

**Fresh zeros.** A public key is a few encryptions of zero, (bᵢ, aᵢ). Holders draw one u, uniform in {−1, 0, 1}, and
make as many masks with it: (bᵢ·u + flooding, aᵢ·u + eᵢ), eᵢ centred binomial as in the library. To the owner the
second parts are ring-LWE samples of the secret u, which nobody else knows, with different aᵢ; the first parts follow
from these and from what decryption shows, where flooding drowns all else. It is the library's encryption of zero but
for sharing u, and for flooding in the place of smaller noise, in a quarter of its time. All randomness is from
`ring.random_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import seal

from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.modular import Words, residues, shifted
from colonnade.secure.ring import PLAIN_BITS, RingMatrix, random_below, random_bytes, random_ring, random_words, wrap
from colonnade.secure.tiles import DEGREE, Tile

FLOOD_BITS = 46
"""Flooding noise is uniform in [0, q₀ · 2^46), about 100 bits; decryption stays right up to 102."""

NOISE_BITS = 21
"""Small noise is the difference of two sums of 21 bits: standard deviation 3.24, at most 21, as in the library."""

_FRESH_NOISE = NOISE_BITS + 1  # of a ciphertext from the owner; encoding the message rounds by a half
_ZERO_NOISE = 2 * NOISE_BITS * DEGREE  # noise of the public key times u, and e₁ times the secret key, both ternary


class Mask(NamedTuple):
    """What hides one ciphertext of a product.

    Attributes:
        zero: the public key times u, transformed: added to the product before it is transformed back.
        noise: small noise, flooding noise and the negative of `share`: added after that.
        share: the ring elements that stay here.
    """

    zero: seal.Ciphertext
    noise: seal.Ciphertext
    share: RingMatrix


def statistical_bits(tile: Tile) -> float:
    """Return how well masks hide a product cut like this: the owner's view is within 2^-bits of one without the noise.

    Counts all ciphertexts of the product together, and takes every plain number as large as it may be: so the result,
    and with it any refusal, depends on shapes alone.
    """
    noise = _FRESH_NOISE * tile.plain_terms * (1 << PLAIN_BITS) + _ZERO_NOISE
    return log2(PRIMES[0]) + FLOOD_BITS - log2(noise * DEGREE * tile.outputs)


def make_masks(public: Sequence[seal.Ciphertext]) -> list[Mask]:
    """Make one mask with each of the transformed encryptions of zero that are a public key."""
    here = library()
    fresh = here.transformed(here.plaintext(wrap(ternary())))
    return [_mask(here.evaluator.multiply_plain(zero, fresh)) for zero in public]


def _mask(zero: seal.Ciphertext) -> Mask:
    here, share, small = library(), random_ring((DEGREE,)), small_noise()
    below = small >> np.int64(63)
    words = np.stack([flooding(), [(small + (prime & below)).view(np.uint64) for prime in PRIMES]])
    noise = here.ciphertext(words)
    here.evaluator.sub_plain_inplace(noise, here.plaintext(share))
    return Mask(zero, noise, share)


def ternary() -> npt.NDArray[np.int64]:
    """Return DEGREE numbers, exactly uniform in {-1, 0, 1}."""
    kept = np.empty(0, np.uint8)
    while kept.size < DEGREE:
        octets = np.frombuffer(random_bytes(DEGREE + DEGREE // 32), np.uint8)
        kept = np.append(kept, octets[octets < 255])  # 255 = 3 · 85: the remainder has no bias
    return (kept[:DEGREE] % 3).view(np.int8).astype(np.int64) - np.int64(1)


def small_noise() -> npt.NDArray[np.int64]:
    """Return DEGREE numbers, each the difference of two sums of 21 random bits."""
    bits = random_words(DEGREE, 2 * NOISE_BITS)
    halves = bits >> np.uint64(NOISE_BITS), bits & np.uint64((1 << NOISE_BITS) - 1)
    first, second = (np.bitwise_count(half).view(np.int8) for half in halves)
    difference: npt.NDArray[np.int8] = first - second
    return difference.astype(np.int64)


def flooding() -> list[Words]:
    """Return the residues of DEGREE numbers, exactly uniform in [0, q₀ · 2^46), for each prime."""
    low, high = random_below(PRIMES[0], DEGREE), random_words(DEGREE, FLOOD_BITS).view(np.int64)
    # Modulo another prime q₀ is its difference to it, less than 2^19, so its products with halves of `high` are small.
    half = FLOOD_BITS // 2
    upper, lower = high >> half, high & ((1 << half) - 1)
    found = [low]
    for prime in PRIMES[1:]:
        value = shifted(upper * (PRIMES[0] - prime), half, prime)
        value += lower * (PRIMES[0] - prime)
        value += low.view(np.int64)
        found.append(residues(value, prime))
    return found
