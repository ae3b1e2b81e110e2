"""Attacks of a curious owner on what the holder sends: each works on a weakened build, and must fail on ours."""

from functools import cache

import numpy as np
import pytest
from bfv_parts import evaluator, key_pair, product_of
from scipy.stats import binom, chi2

from colonnade.secure import ring
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvEvaluator, tile_for
from colonnade.secure.bfv_masks import FLOOD_BITS, NOISE_BITS, Mask, flooding, make_masks, small_noise, ternary
from colonnade.secure.bfv_words import PRIMES, SENT_PRIMES, from_wire, library
from colonnade.secure.tiles import DEGREE

FALSE_ALARM = 1e-9


class WithoutFreshRandomness(BfvEvaluator):
    """Masks every coefficient uniformly, as ours does, but neither re-randomises nor floods."""

    def _mask(self):
        here = library()
        share = ring.random_ring((DEGREE,))
        nothing, one = np.zeros((2, len(PRIMES), DEGREE), np.uint64), np.zeros((2, len(PRIMES), DEGREE), np.uint64)
        one[1, :, 0] = 1  # the library computes with nothing that hides nothing
        noise = here.words(here.evaluator.sub_plain(here.ciphertext(one), here.plaintext(share))).copy()
        return Mask(here.ciphertext(nothing, transformed=True), here.ciphertext(noise - one), share)


class WithNarrowMasks(BfvEvaluator):
    """Hides products under masks of 40 bits instead of uniform ring elements."""

    def _mask(self):
        mask = super()._mask()
        here = library()
        narrow = mask.share & np.uint64(2**40 - 1)
        here.evaluator.add_plain_inplace(mask.noise, here.plaintext(ring.wrap(mask.share - narrow)))
        return Mask(mask.zero, mask.noise, narrow)


@cache
def without_fresh_randomness():
    return WithoutFreshRandomness(key_pair().public_bytes())


@cache
def with_narrow_masks():
    return WithNarrowMasks(key_pair().public_bytes())


def fractions(words, primes):
    """Return the second polynomial's first coefficients as fractions of the modulus."""
    modulus = int(np.prod(np.array(primes, object)))
    total = 0
    for prime, residues in zip(primes, words[1, :, :3], strict=True):
        rest = modulus // prime
        total = total + residues.astype(object) * (rest * pow(rest, -1, prime))
    return (total % modulus / modulus).astype(np.float64)


def read_columns(sent, received, largest):
    """Recover the plain column: the owner knows the c₁ it sent; the c₁ that came back is a multiple of it.

    The message is masked, and the modulus was switched, but the factor is small: try them all.
    """
    candidates = np.arange(-largest, largest + 1)
    before = fractions(from_wire(sent[0], PRIMES), PRIMES)
    recovered = []
    for octets in received:
        after = fractions(from_wire(octets, SENT_PRIMES), SENT_PRIMES)
        distance = np.abs((np.outer(candidates, before) - after + 0.5) % 1 - 0.5).max(axis=1)
        recovered.append(int(candidates[distance.argmin()]) if distance.min() < 1e-8 else None)
    return recovered


def attack(maker):
    plain = ring.encode_plain(np.random.default_rng(3).normal(size=(6, 1)))
    product = Product(6, 1, DEGREE)
    assert tile_for(product).stride == DEGREE
    sent = key_pair().encrypt(ring.random_ring(product.secret_shape), product)
    masked = maker().to_shares(maker().premultiply(maker().prepare(plain), maker().load(sent, product)))
    return plain[:, 0].tolist(), read_columns(sent, masked.ciphertexts, largest=1 << 17)


def test_without_fresh_randomness_the_owner_reads_the_columns_although_all_is_masked():
    plain, recovered = attack(without_fresh_randomness)
    assert recovered == plain


def test_the_owner_reads_no_column_from_what_we_send():
    _, recovered = attack(evaluator)
    assert recovered == [None] * 6


def test_the_weakened_build_is_right_in_all_else():
    """Otherwise the attack above would prove nothing about ours."""
    plain, secret = np.array([[3, -4]]), ring.random_ring((2, 3))
    masked, share = product_of(plain, secret, maker=without_fresh_randomness)
    assert (ring.wrap(masked.share + share) == ring.matmul(plain, secret)).all()


def decrypted(masked):
    """Return all coefficients that the owner can decrypt, not only those that are part of the product."""
    here = library()
    ciphertexts = [here.ciphertext(from_wire(octets, SENT_PRIMES)) for octets in masked.ciphertexts]
    return np.concatenate([here.coefficients(key_pair()._decryptor.decrypt(each)) for each in ciphertexts])


def deviation(numbers, shift):
    counts = np.bincount((numbers >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
    expected = numbers.size / 256
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("value", [0, 1, 2**20 - 1])
def test_all_that_the_owner_decrypts_is_uniform_whatever_the_columns_are(value):
    masked, _ = product_of(np.full((300, 2), value), np.full((2, 100), 2**30, np.uint64))
    numbers = decrypted(masked)
    assert numbers.size >= 4 * DEGREE
    for shift in (0, 25, 51):
        assert deviation(numbers, shift) < chi2.isf(FALSE_ALARM, 255)
        assert deviation(masked.share.ravel(), shift) < chi2.isf(FALSE_ALARM, 255)


def test_the_measure_of_uniformity_finds_masks_that_are_too_narrow():
    masked, share = product_of(np.full((300, 2), 1), np.full((2, 100), 5, np.uint64), maker=with_narrow_masks)
    assert (ring.wrap(masked.share + share) == 10).all()
    assert deviation(decrypted(masked), 51) > chi2.isf(FALSE_ALARM, 255)


def correlation(first, second):
    """Return the correlation in units of what chance alone gives; beyond 6.5 in one of 10^10 trials."""
    return abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) * np.sqrt(first.size)


def test_no_share_is_correlated_with_the_secret_product():
    rng = np.random.default_rng(5)
    values, weights = rng.normal(size=(400, 3)), rng.normal(size=(3, 60))
    plain = ring.encode_plain(values)
    masked, share = product_of(plain, ring.encode(weights, ring.WEIGHT_SCALE))
    product = ring.decode(ring.wrap(masked.share + share), ring.PRODUCT_SCALE)
    assert np.abs(product - values @ weights).max() < 1e-3
    for one in (masked.share, share):
        for part in (ring.decode(one, ring.PRODUCT_SCALE), (one & np.uint64(0xFFFF)).astype(float)):
            assert correlation(part, product) < 6.5
            assert correlation(np.abs(part), np.abs(product)) < 6.5


def test_the_measure_of_correlation_finds_the_published_noise():
    """Float noise as published hides nearly nothing: a share made with it is nearly the secret."""
    rng = np.random.default_rng(5)
    product = 2 * rng.normal(size=24_000)
    assert correlation(product - rng.random(24_000), product) > 100


def test_the_holder_sees_nothing_of_the_secret_in_ciphertexts_of_it():
    """Words of a ciphertext of zeros and of one of ones look alike: both uniform."""
    for value in (0, 2**58):
        product = Product(1, 1, DEGREE)
        words = from_wire(key_pair().encrypt(np.full((1, DEGREE), value, np.uint64), product)[0], PRIMES)
        for shift in (0, 20, 46):
            assert deviation(words.ravel(), shift) < chi2.isf(FALSE_ALARM, 255)


def test_the_randomness_of_a_fresh_zero_has_the_distributions_that_its_security_rests_on():
    """Ring-LWE with narrower noise or a lopsided secret is another problem than the one that is hard."""
    secret = np.concatenate([ternary() for _ in range(8)])
    counts = np.bincount(secret + 1, minlength=3)
    assert counts.size == 3
    assert ((counts - secret.size / 3) ** 2 / (secret.size / 3)).sum() < chi2.isf(FALSE_ALARM, 2)
    noise = np.concatenate([small_noise() for _ in range(8)])
    assert np.abs(noise).max() <= NOISE_BITS
    expected = binom.pmf(np.arange(2 * NOISE_BITS + 1), 2 * NOISE_BITS, 0.5) * noise.size
    counts = np.bincount(noise + NOISE_BITS, minlength=expected.size)
    common = expected > 20
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert statistic < chi2.isf(FALSE_ALARM, int(common.sum()))


def test_a_fresh_zero_is_an_encryption_of_zero_and_never_the_same():
    here = library()
    zeros = [mask.zero for _ in range(2) for mask in make_masks(evaluator()._pool._public)]
    words = [here.words(zero) for zero in zeros]
    assert not any((words[0] == other).mean() > 0.01 for other in words[1:])
    room = np.log2(np.prod([float(prime) for prime in PRIMES])) - 60
    for zero in zeros:
        back = here.evaluator.transform_from_ntt(zero)
        assert not here.coefficients(key_pair()._decryptor.decrypt(back)).any()
        assert key_pair()._decryptor.invariant_noise_budget(back) >= int(room - np.log2(2 * NOISE_BITS * DEGREE))


def test_flooding_is_one_number_in_all_its_residues_and_uniform():
    residues = np.concatenate([np.stack(flooding()) for _ in range(8)], axis=1)
    modulus = int(np.prod(np.array(PRIMES, object)))
    total = 0
    for prime, part in zip(PRIMES, residues, strict=True):
        rest = modulus // prime
        total = total + part.astype(object) * (rest * pow(rest, -1, prime))
    numbers = total % modulus
    bound = PRIMES[0] << FLOOD_BITS
    assert max(numbers) < bound
    assert max(numbers) > bound * 0.999
    counts = np.bincount((numbers * 256 // bound).astype(np.int64), minlength=256)
    assert ((counts - 256.0) ** 2 / 256.0).sum() < chi2.isf(FALSE_ALARM, 255)


def test_flooding_fills_nearly_all_the_room_that_decryption_leaves():
    """The noise of a product without it tells about columns; with it, at most four bits of 48 are left."""
    here = library()
    masked, _ = product_of(np.zeros((300, 2), np.int64), np.zeros((2, 100), np.uint64))
    for octets in masked.ciphertexts:
        assert 1 <= key_pair()._decryptor.invariant_noise_budget(here.ciphertext(from_wire(octets, SENT_PRIMES))) <= 4


def test_what_comes_back_has_the_same_form_for_all_columns():
    """Number, size and remaining noise of ciphertexts must not depend on values."""
    here, secret = library(), ring.random_ring((5, 7))
    forms = set()
    for value in (0, 1, -(2**20) + 1):
        masked, _ = product_of(np.full((4, 5), value), secret)
        ciphertexts = [here.ciphertext(from_wire(octets, SENT_PRIMES)) for octets in masked.ciphertexts]
        budgets = {key_pair()._decryptor.invariant_noise_budget(each) for each in ciphertexts}
        forms.add((masked.ciphertexts.shape, tuple(budgets)))
    assert len(forms) == 1
