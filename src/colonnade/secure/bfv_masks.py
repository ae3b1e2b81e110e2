"""What hides a product before it goes back to the owner of the key; made ahead of time, it needs no input.

A mask is a fresh encryption of zero under the owner's public key (so that the product's ciphertext no longer depends on
the ones it was made from), plus flooding noise (so that the noise of the product drowns), minus uniform ring elements
in all coefficients (so that what is decrypted is uniform).
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

import numpy as np
import seal

from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.modular import LIMB_BITS, Words, add, combine
from colonnade.secure.ring import PLAIN_BITS, RingMatrix, random_below, random_ring, random_words
from colonnade.secure.tiles import DEGREE, Tile

FLOOD_BITS = 46
"""Flooding noise is uniform in [0, q₀ · 2^46), about 100 bits; decryption stays right up to 102."""

_FRESH_NOISE = 22  # the library's noise is at most 21 in magnitude; encoding the message rounds by a half
_ZERO_NOISE = DEGREE // 2 + 4  # a fresh encryption of zero: rounding when the key prime goes, times a ternary secret


class Mask(NamedTuple):
    """What is added to one ciphertext of a product, transformed, and the ring elements that stay here."""

    words: Words
    share: RingMatrix


def statistical_bits(tile: Tile) -> float:
    """Return how well masks hide a product cut like this: the owner's view is within 2^-bits of one without the noise.

    Counts all ciphertexts of the product together, and takes every plain number as large as it may be: so the result,
    and with it any refusal, depends on shapes alone.
    """
    noise = _FRESH_NOISE * tile.plain_terms * (1 << PLAIN_BITS) + _ZERO_NOISE
    return log2(PRIMES[0]) + FLOOD_BITS - log2(noise * DEGREE * tile.outputs)


def make_mask(encryptor: seal.Encryptor) -> Mask:
    """Make one mask for the public key of `encryptor`."""
    here = library()
    share = random_ring((DEGREE,))
    zero = encryptor.encrypt_zero()
    here.evaluator.sub_plain_inplace(zero, here.plaintext(share))
    words = here.words(zero).copy()
    for index, (prime, noise) in enumerate(zip(PRIMES, flooding(), strict=True)):
        words[0, index] = add(words[0, index], noise, prime)
    transformed = here.evaluator.transform_to_ntt(here.ciphertext(words))
    return Mask(here.words(transformed), share)


def flooding() -> list[Words]:
    """Return the residues of DEGREE numbers, exactly uniform in [0, q₀ · 2^46), for each prime."""
    low, high = random_below(PRIMES[0], DEGREE).view(np.int64), random_words(DEGREE, FLOOD_BITS).view(np.int64)
    digits = [high & (1 << LIMB_BITS) - 1, high >> LIMB_BITS & (1 << LIMB_BITS) - 1, high >> 2 * LIMB_BITS]
    residues = []
    for prime in PRIMES:
        # Modulo each prime q₀ is its difference to it, less than 2^19, so its products with digits are small.
        products = [digit * (PRIMES[0] - prime) for digit in digits]
        residues.append(combine([low + products[0], *products[1:]], prime))
    return residues
