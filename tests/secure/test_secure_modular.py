"""If these fail, arithmetic on ciphertexts is wrong in some digit, and every product with it."""

import numpy as np
import pytest
import seal
from bfv_parts import evaluator, key_pair
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.errors import DataError
from colonnade.secure import ring
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvBackend, tile_for
from colonnade.secure.bfv_encoding import encode
from colonnade.secure.bfv_masks import statistical_bits
from colonnade.secure.bfv_words import KEY_PRIMES, PRIMES, library
from colonnade.secure.modular import (
    LARGEST_INNER,
    add,
    gap,
    left_limbs,
    multiply,
    multiply_pointwise,
    residues,
    right_limbs,
    shifted,
)
from colonnade.secure.tiles import DEGREE, Tile, _uneven_places, choose_tile


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


@given(st.sampled_from(PRIMES), st.integers(-(2**62), 2**62))
def test_numbers_of_either_sign_have_the_right_residue(prime, number):
    assert int(residues(np.array([number]), prime)[0]) == number % prime


@given(
    st.sampled_from(PRIMES),
    st.tuples(st.integers(-(2**53), 2**63 - 1), st.integers(0, 18))
    | st.tuples(st.integers(-(2**53), 2**54), st.integers(0, 27)),
)
@example(PRIMES[0], (2**63 - 1, 18))
@example(PRIMES[0], (2**54, 27))
def test_shifted_numbers_stay_small_and_keep_their_residue(prime, numbers):
    """Products are put together from shifted digits; one that left 64 bits would spoil them silently."""
    number, bits = numbers
    found = int(shifted(np.array([number]), bits, prime)[0])
    assert found % prime == (number << bits) % prime
    assert -(2**54) < found < 2**54 + 2**49


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


@pytest.mark.parametrize(
    ("stride", "height", "depth"), [(8192, 1, 1), (4096, 1, 2), (1024, 2, 3), (256, 32, 1), (64, 16, 8), (8, 100, 10)]
)
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
        ours = whole(limbs[:, :, 0].T)
        assert (words[index].astype(object) == ours[:, None]).all()


shapes = st.builds(Product, st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))


@settings(max_examples=30, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.data())
def test_any_tile_gives_the_product_of_the_matrices(product, random, data):
    """Not only the tile that is chosen: whatever fits must be right, also where terms wrap around."""
    stride = 1 << data.draw(st.integers(9, 13))
    depth = data.draw(st.integers(1, min(product.inner, DEGREE // stride)))
    pitch = data.draw(st.integers(1, DEGREE // stride // depth))
    tile = Tile(product, stride, min(product.rows, DEGREE // stride // depth // pitch), depth, pitch)
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


@settings(max_examples=30, deadline=None)
@given(st.builds(Product, st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 2000), st.booleans()))
def test_every_chosen_tile_covers_its_product_and_fits(product):
    tile = choose_tile(product, statistical_bits)
    down, deep, across = tile.grid
    assert tile.height * tile.depth * tile.width <= DEGREE
    assert down * tile.height >= product.rows
    assert deep * tile.depth >= product.inner
    assert across * tile.width >= product.columns


def test_both_parties_choose_the_same_tile_and_a_good_one():
    tile = choose_tile(Product(1000, 25, 250), statistical_bits)
    choose_tile.cache_clear()
    assert tile == choose_tile(Product(1000, 25, 250), statistical_bits)
    assert tile.height * tile.depth * tile.width <= DEGREE
    assert tile.inputs + tile.outputs < 60


@given(st.sampled_from(PRIMES), st.data())
def test_numbers_are_multiplied_one_by_one_exactly(prime, data):
    left, right = (data.draw(arrays(np.uint64, 4, elements=st.integers(0, prime - 1))) for _ in range(2))
    exact = left.astype(object) * right.astype(object) % prime
    assert (multiply_pointwise(left, right, prime).astype(object) == exact).all()


def test_no_three_places_of_a_diagonal_are_evenly_spaced():
    """Otherwise an inner product would have a foreign one added to it."""
    places = _uneven_places()
    sums = places[:, None] + places
    doubles = np.isin(sums, 2 * places)
    assert (doubles == np.eye(len(places), dtype=bool)).all()


@pytest.mark.parametrize("inner", [1, 2, 10, 100, 8192])
def test_a_full_diagonal_is_exact_and_one_more_row_is_refused(inner):
    rows = BfvBackend().diagonal_group(inner)
    assert rows >= {1: 256, 2: 128, 10: 64}.get(inner, 1)
    plain = np.random.default_rng(inner).integers(-(2**20) + 1, 2**20, (rows, inner))
    secret, product = ring.random_ring((inner, rows)), Product(rows, inner, rows, diagonal=True)
    for left in (plain, np.zeros_like(plain)):
        encrypted = evaluator().load(key_pair().encrypt(secret, product), product)
        masked = evaluator().to_shares(evaluator().premultiply(evaluator().prepare(left), encrypted))
        share = key_pair().receive_shares(masked.ciphertexts, product)
        exact = np.einsum("ij,ji->i", left.astype(object), secret.astype(object)) % 2**59
        assert (ring.wrap(masked.share + share)[:, 0].astype(object) == exact).all()
        assert masked.statistical_bits > 45
    with pytest.raises(DataError, match="does not fit"):
        tile_for(Product(rows + 1, inner, rows + 1, diagonal=True))


def test_only_square_products_have_a_diagonal():
    with pytest.raises(DataError, match="no whole diagonal"):
        Product(2, 1, 3, diagonal=True)
