"""If these fail, encrypted products are not the plain ones, or keys and memory are not handled as promised."""

import numpy as np
import pytest
import seal
from bfv_parts import LARGEST_PLAIN, assert_exact, evaluator, key_pair, product_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.errors import ConfigError, DataError, FrameError
from colonnade.secure import backend, ring
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvEncrypted, BfvEvaluator, BfvKeyPair, tile_for
from colonnade.secure.bfv_masks import statistical_bits
from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.tiles import DEGREE, choose_tile

SIZES = st.one_of(st.sampled_from([1, 2, 3, 7, 8, 9, 31, 37, 64, 97]), st.integers(1, 40))


@settings(max_examples=40, deadline=None)
@given(SIZES, SIZES, SIZES, st.booleans(), st.data())
def test_products_of_any_shape_are_exact(rows, inner, columns, transposed, data):
    shape = (inner, rows) if transposed else (rows, inner)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    plain = rng.integers(-LARGEST_PLAIN, LARGEST_PLAIN + 1, shape)
    assert_exact(plain, ring.random_ring((inner, columns)), transposed)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_products_of_chosen_numbers_are_exact(data, rows, inner, columns):
    """Hypothesis looks for zeros, extremes and the edges of the ring."""
    plain = data.draw(arrays(np.int64, (rows, inner), elements=st.integers(-LARGEST_PLAIN, LARGEST_PLAIN)))
    secret = data.draw(arrays(np.uint64, (inner, columns), elements=st.integers(0, 2**59 - 1)))
    assert_exact(plain, secret)


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 1, 1), (1, 1, 8192), (1, 1, 8209), (1009, 3, 2), (2, 1009, 3), (3, 2, 1009), (300, 5, 130), (70, 90, 1),
     (1, 9000, 1)],
)  # fmt: skip
@pytest.mark.parametrize("value", [0, LARGEST_PLAIN, -LARGEST_PLAIN])
def test_long_thin_and_prime_shapes_are_exact_at_the_extremes(rows, inner, columns, value):
    assert_exact(np.full((rows, inner), value), np.full((inner, columns), 2**59 - 1, np.uint64))


def test_zero_rows_and_zero_matrices_are_exact_and_still_hidden():
    """SEAL alone raises on a zero factor, which would tell the peer about it."""
    plain = np.array([[0, 0, 0], [1, 0, -5], [0, 0, 0]])
    assert_exact(plain, ring.random_ring((3, 4)))
    assert_exact(plain, np.zeros((3, 4), np.uint64))
    masked, share = product_of(np.zeros((3, 3), np.int64), np.zeros((3, 4), np.uint64))
    assert masked.share.any()
    assert share.any()


@pytest.mark.parametrize("memory", [0, 3000, 1 << 30])
def test_encoded_columns_are_kept_within_the_given_memory(memory):
    plain = np.random.default_rng(1).integers(-100, 100, (400, 7))
    secret = ring.random_ring((7, 250))
    product = Product(400, 7, 250)
    prepared = evaluator().prepare(plain, memory)
    ciphertexts = key_pair().encrypt(secret, product)
    for _ in range(2):
        masked = evaluator().to_shares(evaluator().premultiply(prepared, evaluator().load(ciphertexts, product)))
        share = key_pair().receive_shares(masked.ciphertexts, product)
        assert (ring.wrap(masked.share + share) == ring.matmul(plain, secret)).all()
        assert prepared.kept <= memory
    assert prepared.kept > 0 or memory < 1 << 30


def test_columns_changed_after_preparation_do_not_change_the_product():
    plain = np.ones((2, 2), np.int64)
    prepared = evaluator().prepare(plain)
    plain[:] = 7
    product = Product(2, 2, 1)
    secret = np.ones((2, 1), np.uint64)
    masked = evaluator().to_shares(
        evaluator().premultiply(prepared, evaluator().load(key_pair().encrypt(secret, product), product))
    )
    assert (ring.wrap(masked.share + key_pair().receive_shares(masked.ciphertexts, product)) == 2).all()


def test_the_noise_of_a_product_keeps_to_the_bound_that_hiding_it_relies_on():
    product = Product(64, 40, 32)
    tile = tile_for(product)
    plain = np.full((64, 40), LARGEST_PLAIN)
    encrypted = evaluator().load(key_pair().encrypt(ring.random_ring((40, 32)), product), product)
    words = evaluator().premultiply(evaluator().prepare(plain), encrypted).words
    here = library()
    bits = np.log2(np.prod([float(prime) for prime in PRIMES])) - 60
    least = bits - np.log2(22 * tile.plain_terms * 2.0**20)
    for part in words.reshape(-1, 2, len(PRIMES), DEGREE):
        ciphertext = here.evaluator.transform_from_ntt(here.ciphertext(part, transformed=True))
        assert key_pair()._decryptor.invariant_noise_budget(ciphertext) >= int(least)


def test_fresh_noise_keeps_to_the_bounds_that_hiding_relies_on():
    """The library's documentation says so; here it is measured, since masks are computed from it."""
    here = library()
    room = np.log2(np.prod([float(prime) for prime in PRIMES])) - 60
    budget = key_pair()._decryptor.invariant_noise_budget
    for _ in range(20):
        fresh = key_pair()._encryptor.encrypt_symmetric(here.plaintext(ring.random_ring((DEGREE,))))
        assert budget(fresh) >= int(room - np.log2(22))


def test_statistical_bits_fall_with_what_enters_a_ciphertext_and_too_few_are_refused():
    small, large = Product(1, 1, 1), Product(1000, 100, 1000)
    assert statistical_bits(tile_for(small)) > statistical_bits(tile_for(large)) > 43
    huge = Product(4, 1 << 22, 1)
    with pytest.raises(DataError, match="statistical bits"):
        tile_for(huge)
    with pytest.raises(DataError, match="statistical bits"):
        key_pair().encrypt(np.zeros(huge.secret_shape, np.uint64), huge)
    tile = choose_tile(huge, statistical_bits)
    with pytest.raises(DataError, match="statistical bits"):
        evaluator().to_shares(BfvEncrypted(np.zeros(0, np.uint64), tile, multiplied=True))


def test_what_does_not_fit_together_is_refused():
    product = Product(2, 3, 4)
    encrypted = evaluator().load(key_pair().encrypt(np.zeros((3, 4), np.uint64), product), product)
    wrong = evaluator().prepare(np.ones((3, 2), np.int64))
    with pytest.raises(DataError, match="does not fit"):
        evaluator().premultiply(wrong, encrypted)
    with pytest.raises(DataError, match="only a product"):
        evaluator().to_shares(encrypted)
    multiplied = evaluator().premultiply_transposed(wrong, encrypted)
    with pytest.raises(DataError, match="secret factor"):
        evaluator().premultiply_transposed(wrong, multiplied)
    with pytest.raises(DataError, match="was due"):
        key_pair().encrypt(np.zeros((4, 3), np.uint64), product)
    with pytest.raises(DataError, match="20 bits"):
        evaluator().prepare(np.array([[2**20]]))
    with pytest.raises(DataError, match="empty"):
        Product(0, 1, 1)


def test_a_saved_key_pair_reads_what_was_sent_to_the_old_one(tmp_path):
    path = tmp_path / "key"
    key_pair().save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = backend("bfv")().open(path)
    assert again.public_bytes() == key_pair().public_bytes()
    masked, share = product_of(np.array([[3]]), np.array([[5]], np.uint64))
    assert (again.receive_shares(masked.ciphertexts, Product(1, 1, 1)) == share).all()


def test_key_files_that_others_can_read_or_that_are_damaged_are_refused(tmp_path):
    path = tmp_path / "key"
    key_pair().save(path)
    with pytest.raises(ConfigError, match="exists"):
        key_pair().save(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="read by others"):
        BfvKeyPair.open(path)
    content = path.read_bytes()
    for bad in (content[:-1], content[:100], b"something else", content.replace(b": bfv\n", b": other\n", 1)):
        damaged = tmp_path / "damaged"
        damaged.unlink(missing_ok=True)
        damaged.write_bytes(bad)
        damaged.chmod(0o600)
        with pytest.raises(ConfigError) as caught:
            BfvKeyPair.open(damaged)
        assert caught.value.where == str(damaged)
    with pytest.raises(ConfigError, match="cannot read"):
        BfvKeyPair.open(tmp_path / "missing")


def test_nothing_that_is_printed_shows_key_material():
    prepared = evaluator().prepare(np.array([[123456]]))
    encrypted = evaluator().load(
        key_pair().encrypt(np.array([[654321]], np.uint64), Product(1, 1, 1)), Product(1, 1, 1)
    )
    secret = key_pair()._secret.to_string()
    for shown in (key_pair(), prepared, encrypted, evaluator()):
        text = f"{shown!r} {shown}"
        assert len(text) < 200
        assert "123456" not in text
        assert "654321" not in text
        assert secret[100:108].hex() not in text
    assert key_pair().fingerprint() in repr(key_pair())


def test_two_encryptions_of_one_matrix_have_nothing_in_common():
    product, secret = Product(1, 1, 1), np.array([[7]], np.uint64)
    first, second = (key_pair().encrypt(secret, product) for _ in range(2))
    assert (first == second).mean() < 0.02


def test_another_key_decrypts_to_nothing():
    masked, _ = product_of(np.array([[1]]), np.array([[1]], np.uint64))
    share = BfvKeyPair.generate().receive_shares(masked.ciphertexts, Product(1, 1, 1))
    assert ring.wrap(masked.share + share)[0, 0] != 1


def test_public_keys_of_other_sizes_or_kinds_are_refused():
    good = key_pair().public_bytes()
    for bad in (b"", good[:-1], good + b"x", b"\xff" * len(good), bytes(len(good))):
        with pytest.raises(FrameError):
            BfvEvaluator(bad)


def test_the_library_is_one_with_the_security_update():
    """SEAL before 4.4.0 has a known problem in what it reads."""
    assert tuple(int(part) for part in seal.__version__.split(".")[:2]) >= (4, 4)
