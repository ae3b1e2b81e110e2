"""If these fail, the packed Paillier backend computes wrong products, or tells one party what the other holds."""

import math

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import DataError, FrameError
from colonnade.secure.backend import BACKENDS, Product
from colonnade.secure.paillier import Paillier2048, PaillierEvaluator
from colonnade.secure.paillier_key import PublicKey
from colonnade.secure.paillier_packing import Layout
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, matmul, random_ring, signed, wrap

TOP_PLAIN = (1 << PLAIN_BITS) - 1
RING_EXTREMES = [0, 1, (1 << 58) - 1, 1 << 58, (1 << RING_BITS) - 1]


@pytest.fixture(scope="module")
def key_pair():
    return Paillier2048().generate()


@pytest.fixture(scope="module")
def evaluator(key_pair):
    return Paillier2048().evaluator(key_pair.public_bytes())


def shared_product(key_pair, evaluator, plain, secret, *, transposed=False):
    """Return both parties' shares of plain · secret (plainᵀ · secret)."""
    product = Product(*(plain.T if transposed else plain).shape, secret.shape[1])
    encrypted = evaluator.load(key_pair.encrypt(secret, product), product)
    multiply = evaluator.premultiply_transposed if transposed else evaluator.premultiply
    masked = evaluator.to_shares(multiply(evaluator.prepare(plain), encrypted))
    assert masked.statistical_bits >= 40
    return key_pair.receive_shares(masked.ciphertexts, product), masked.share


def assert_exact(key_pair, evaluator, plain, secret):
    for transposed, left in ((False, plain), (True, np.ascontiguousarray(plain.T))):
        owner, holder = shared_product(key_pair, evaluator, left, secret, transposed=transposed)
        np.testing.assert_array_equal(wrap(owner + holder), matmul(plain, secret))


@st.composite
def factors(draw):
    rows, inner, columns = (draw(st.integers(1, top)) for top in (4, 5, 20))
    plain = st.sampled_from([-TOP_PLAIN, -1, 0, 1, TOP_PLAIN]) | st.integers(-TOP_PLAIN, TOP_PLAIN)
    ring = st.sampled_from(RING_EXTREMES) | st.integers(0, (1 << RING_BITS) - 1)
    left = draw(st.lists(plain, min_size=rows * inner, max_size=rows * inner))
    right = draw(st.lists(ring, min_size=inner * columns, max_size=inner * columns))
    return np.array(left, np.int64).reshape(rows, inner), np.array(right, np.uint64).reshape(inner, columns)


@settings(max_examples=15, deadline=None)
@given(factors())
def test_any_product_is_exact_in_both_directions(key_pair, evaluator, both):
    assert_exact(key_pair, evaluator, *both)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 11, 13), (41, 2, 3), (2, 67, 3), (1, 1, 31), (3, 1, 14), (3, 1, 15)])
def test_odd_shapes_are_exact(key_pair, evaluator, shape):
    rows, inner, columns = shape
    plain = np.random.default_rng(rows).integers(-TOP_PLAIN, TOP_PLAIN + 1, (rows, inner))
    assert_exact(key_pair, evaluator, plain, random_ring((inner, columns)))


@pytest.mark.parametrize("plain", [-TOP_PLAIN, 0, TOP_PLAIN])
@pytest.mark.parametrize("secret", RING_EXTREMES)
def test_extremes_do_not_carry_into_the_next_slot(key_pair, evaluator, plain, secret):
    assert_exact(key_pair, evaluator, np.full((2, 64), plain), np.full((64, 15), secret, np.uint64))


def test_all_zero_rows_are_exact(key_pair, evaluator):
    plain = np.array([[0, 0], [5, -3], [0, 0]])
    assert_exact(key_pair, evaluator, plain, random_ring((2, 4)))
    assert_exact(key_pair, evaluator, plain, np.zeros((2, 4), np.uint64))


@pytest.mark.slow
def test_the_default_key_is_exact_on_several_threads():
    backend = BACKENDS["paillier"]()
    key_pair = backend.generate()
    assert key_pair.key_bits == 3072
    plain = np.random.default_rng(0).integers(-TOP_PLAIN, TOP_PLAIN + 1, (40, 5))
    with backend.evaluator(key_pair.public_bytes(), workers=3) as evaluator:
        assert_exact(key_pair, evaluator, plain, random_ring((5, 50)))


def test_the_same_product_never_leaves_twice(key_pair, evaluator):
    """A repeated ciphertext or mask would tell the owner that nothing changed, and what a difference is."""
    product = Product(1, 2, 3)
    encrypted = evaluator.load(key_pair.encrypt(random_ring((2, 3)), product), product)
    multiplied = evaluator.premultiply(evaluator.prepare(np.array([[1, 2]])), encrypted)
    first, second = evaluator.to_shares(multiplied), evaluator.to_shares(multiplied)
    assert not (first.ciphertexts == second.ciphertexts).all()
    assert not (first.share == second.share).any()


def test_the_same_secret_never_looks_the_same(key_pair):
    product = Product(1, 1, 1)
    secret = np.zeros((1, 1), np.uint64)
    assert not (key_pair.encrypt(secret, product) == key_pair.encrypt(secret, product)).all()


class WithoutFreshRandomness(PaillierEvaluator):
    """Deliberately weakened: what masking alone would be."""

    def _fresh_residues(self, count):
        return [mpz(1)] * count


@pytest.mark.parametrize(("weakened", "found"), [(True, True), (False, False)])
def test_the_owner_cannot_find_the_scalar_by_trying_all(key_pair, weakened, found):
    """Reference §5.1: the mask hides the message, but without fresh randomness r_out = r^x, and x is soon tried."""
    public = PublicKey.from_bytes(key_pair.public_bytes(), 2048)
    evaluator = (WithoutFreshRandomness if weakened else PaillierEvaluator)(public, 0)
    scalar, product = 12345, Product(1, 1, 1)
    sent = key_pair.encrypt(random_ring((1, 1)), product)
    prepared = evaluator.prepare(np.array([[scalar]]))
    masked = evaluator.to_shares(evaluator.premultiply(prepared, evaluator.load(sent, product)))

    randomness_sent, randomness_back = (randomness(key_pair, public, text) for text in (sent, masked.ciphertexts))
    guess, tried = mpz(1), []
    for candidate in range(1 << 15):
        if guess == randomness_back:
            tried.append(candidate)
        guess = guess * randomness_sent % public.square
    assert tried == ([scalar] if found else [])


def randomness(key_pair, public, ciphertexts):
    """Return r^n of one ciphertext: the owner decrypts it and divides by (1 + n)^m."""
    number = public.parse(ciphertexts, 1)[0]
    message = key_pair._private.decrypt([number])[0]
    return number * gmpy2.invert(1 + message * public.n, public.square) % public.square


def test_shares_are_uniform_and_tell_nothing_about_the_product(key_pair, evaluator):
    rng = np.random.default_rng(5)
    plain, secret = rng.integers(-TOP_PLAIN, TOP_PLAIN, (40, 1)), wrap(rng.integers(-(1 << 36), 1 << 36, (1, 70)))
    owner, holder = shared_product(key_pair, evaluator, plain, secret)
    true = signed(wrap(owner + holder)).astype(float).ravel()
    for share in (owner, holder):
        for shift in (0, RING_BITS - 4):  # the lowest and the highest four bits
            counts = np.bincount((share.ravel() >> np.uint64(shift) & np.uint64(15)).astype(int), minlength=16)
            expected = share.size / 16
            assert ((counts - expected) ** 2 / expected).sum() < 50  # 15 degrees of freedom: one in 10^5
        correlation = np.corrcoef(signed(share).astype(float).ravel(), true)[0, 1]
        assert abs(correlation) < 4.5 / math.sqrt(share.size)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 20_000), st.integers(1, 1 << 30), st.integers(1, 500), st.sampled_from([2048, 3072]))
def test_every_layout_hides_enough_and_never_overflows(rows, inner, columns, key_bits):
    layout = Layout.of(Product(rows, inner, columns), key_bits)
    assert layout.statistical_bits >= 40
    assert 8 * layout.width - layout.value_bits - 2 >= 40 + math.log2(rows * columns)
    largest = inner * TOP_PLAIN << RING_BITS - 1
    assert largest < 1 << layout.value_bits
    top_mask = (1 << 8 * layout.width - 1) - 1
    assert largest + (1 << layout.value_bits) + top_mask < 1 << 8 * layout.width
    assert -largest + (1 << layout.value_bits) >= 0
    assert layout.slots * 8 * layout.width < key_bits
    assert layout.blocks * layout.slots >= columns


def test_another_partys_matrix_is_refused(key_pair, evaluator):
    other = Paillier2048().evaluator(Paillier2048().generate().public_bytes())
    product = Product(1, 2, 3)
    encrypted = evaluator.load(key_pair.encrypt(random_ring((2, 3)), product), product)
    with pytest.raises(DataError, match="another key"):
        other.premultiply(other.prepare(np.array([[1, 2]])), encrypted)


def test_a_factor_is_not_sent_back_and_a_product_not_multiplied_again(key_pair, evaluator):
    product = Product(2, 2, 3)
    prepared = evaluator.prepare(np.array([[1, 2], [3, 4]]))
    encrypted = evaluator.load(key_pair.encrypt(random_ring((2, 3)), product), product)
    with pytest.raises(DataError, match="no product"):
        evaluator.to_shares(encrypted)
    with pytest.raises(DataError, match="already"):
        evaluator.premultiply(prepared, evaluator.premultiply(prepared, encrypted))


def test_matrices_that_do_not_fit_are_refused_before_anything_is_encrypted(key_pair, evaluator):
    product = Product(1, 2, 3)
    with pytest.raises(DataError):
        key_pair.encrypt(random_ring((3, 3)), product)
    with pytest.raises(DataError):
        key_pair.encrypt(np.full((2, 3), 1 << RING_BITS, np.uint64), product)
    with pytest.raises(DataError):
        evaluator.prepare(np.full((1, 2), 1 << PLAIN_BITS))
    encrypted = evaluator.load(key_pair.encrypt(random_ring((2, 3)), product), product)
    with pytest.raises(DataError):
        evaluator.premultiply(evaluator.prepare(np.array([[1, 2, 3]])), encrypted)


def test_a_masked_product_of_another_shape_is_refused(key_pair, evaluator):
    product = Product(1, 2, 3)
    encrypted = evaluator.load(key_pair.encrypt(random_ring((2, 3)), product), product)
    masked = evaluator.to_shares(evaluator.premultiply(evaluator.prepare(np.array([[1, 2]])), encrypted))
    with pytest.raises(FrameError):
        key_pair.receive_shares(masked.ciphertexts, Product(2, 2, 3))
