"""If these fail, arithmetic on ciphertexts is wrong in some digit, and every product with it."""

import numpy as np
import pytest
import seal
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.secure.backend import Product
from colonnade.secure.bfv_encoding import encode
from colonnade.secure.bfv_masks import statistical_bits
from colonnade.secure.bfv_words import KEY_PRIMES, PRIMES, library
from colonnade.secure.modular import LARGEST_INNER, add, combine, gap, left_limbs, multiply, right_limbs
from colonnade.secure.tiles import DEGREE, Tile, choose_tile


def whole(limbs):
    """Put three limbs, as numbers, together again."""
    return sum(limb.astype(np.int64).astype(object) << 18 * index for index, limb in enumerate(limbs))


@given(st.data(), st.sampled_from(PRIMES), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_products_of_residues_are_exact(data, prime, rows, inner, columns):
    elements = st.integers(0, prime - 1)
    left = data.draw(arrays(np.uint64, (rows, inner), elements=elements))
    right = data.draw(arrays(np.uint64, (inner, columns), elements=elements))
    exact = left.astype(object) @ right.astype(object) % prime
    assert (multiply(left_limbs(left), right_limbs(right), prime).astype(object) == exact).all()


@pytest.mark.parametrize("prime", PRIMES)
def test_the_longest_sum_of_the_largest_residues_is_exact(prime):
    left = np.full((1, LARGEST_INNER), prime - 1, np.uint64)
    assert int(multiply(left_limbs(left), right_limbs(left.T), prime)[0, 0]) == LARGEST_INNER % prime
    with pytest.raises(ValueError, match="not exact"):
        longer = np.ones((1, LARGEST_INNER + 1), np.uint64)
        multiply(left_limbs(longer), right_limbs(longer.T), prime)


@given(st.sampled_from(PRIMES), arrays(np.int64, (5, 3), elements=st.integers(-(2**53), 2**54)))
def test_signed_digits_are_put_together_right(prime, digits):
    exact = sum(digit.astype(object) << 18 * power for power, digit in enumerate(digits)) % prime
    assert (combine(list(digits), prime).astype(object) == exact).all()


@given(st.sampled_from(PRIMES), st.data())
def test_sums_of_residues_stay_residues(prime, data):
    first, second = (np.array([data.draw(st.integers(0, prime - 1))], np.uint64) for _ in range(2))
    assert int(add(first, second, prime)[0]) == (int(first[0]) + int(second[0])) % prime


def test_parameters_keep_to_the_128_bit_bound_of_the_standard():
    """8192 coefficients and a ternary secret allow 218 bits; more would be faster to break."""
    assert np.prod([float(prime) for prime in KEY_PRIMES]) < 2.0**218
    bound = seal.CoeffModulus.MaxBitCount(DEGREE, seal.sec_level_type.tc128)
    assert sum(prime.bit_length() for prime in KEY_PRIMES) <= bound
    assert all(prime % (2 * DEGREE) == 1 and gap(prime) for prime in PRIMES)


@pytest.mark.parametrize(("stride", "height", "depth"), [(8192, 1, 1), (1024, 2, 3), (256, 32, 1), (8, 100, 10)])
def test_encoded_columns_are_what_the_library_would_make_of_them(stride, height, depth):
    """The short way to transform a polynomial in y must agree with the library's own at every point."""
    tile = Tile(Product(height, depth, stride), stride, height, depth)
    plain = np.random.default_rng(0).integers(-(2**20) + 1, 2**20, (height, depth))
    values = tile.pack_plain(plain)[0, 0]
    coefficients = np.zeros(DEGREE, np.uint64)
    coefficients[:: tile.stride] = values.astype(np.uint64) & np.uint64(2**59 - 1)
    here = library()
    transformed = here.evaluator.transform_to_ntt(here.plaintext(coefficients), here.context.first_parms_id())
    words = np.frombuffer(transformed.to_bytes(), np.uint64, offset=88).reshape(len(PRIMES), tile.points, stride)
    for index, limbs in enumerate(encode(plain, tile)):
        ours = whole(limbs[:, 0, :].T)
        assert (words[index].astype(object) == ours[:, None]).all()


shapes = st.builds(Product, st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))


@settings(max_examples=30, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.data())
def test_any_tile_gives_the_product_of_the_matrices(product, random, data):
    """Not only the tile that is chosen: whatever fits must be right, also where terms wrap around."""
    stride = 1 << data.draw(st.integers(9, 13))
    depth = data.draw(st.integers(1, min(product.inner, DEGREE // stride)))
    tile = Tile(product, stride, min(product.rows, DEGREE // stride // depth), depth)
    rng = np.random.default_rng(random.getrandbits(32))
    plain = rng.integers(-3, 4, (product.rows, product.inner))
    secret = rng.integers(0, 100, product.secret_shape).astype(np.uint64)
    down, deep, across = tile.grid
    left, right = tile.pack_plain(plain), tile.pack_secret(secret).astype(np.int64)
    result = np.zeros((across, down, DEGREE), np.int64)
    for column, row, inner in np.ndindex(across, down, deep):
        for power, factor in enumerate(left[row, inner]):
            shifted = np.roll(right[column, inner], power * stride)
            shifted[: power * stride] *= -1  # x^8192 = -1
            result[column, row] += factor * shifted
    unpacked = tile.unpack_product(result.reshape(-1, DEGREE).view(np.uint64)).view(np.int64)
    assert (unpacked == plain @ secret.astype(np.int64)).all()


def test_both_parties_choose_the_same_tile_and_a_good_one():
    tile = choose_tile(Product(1000, 25, 250), statistical_bits)
    choose_tile.cache_clear()
    assert tile == choose_tile(Product(1000, 25, 250), statistical_bits)
    assert tile.height * tile.depth * tile.stride <= DEGREE
    assert tile.inputs + tile.outputs < 60
