"""If these fail, a Paillier key is weak, leaks, or a peer's bytes do harm; or nobody else can read our ciphertexts."""

import pickle
import stat

import gmpy2
import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import ConfigError, FrameError
from colonnade.secure.backend import Product
from colonnade.secure.paillier import Paillier, Paillier2048, PaillierKeyPair
from colonnade.secure.paillier_key import PrivateKey, PublicKey, suits
from colonnade.secure.paillier_packing import Layout
from colonnade.secure.ring import random_ring

PRODUCT = Product(1, 1, 2)


@pytest.fixture(scope="module")
def private():
    return PrivateKey.generate(2048)


@pytest.fixture(scope="module")
def key_pair(private):
    return PaillierKeyPair(private)


@pytest.fixture(scope="module")
def theirs(private):
    """The same key as python-paillier sees it."""
    public = phe.PaillierPublicKey(int(private.public.n))
    return phe.PaillierPrivateKey(public, int(private._p), int(private._q))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 2046))
def test_python_paillier_reads_ours(private, theirs, number):
    assert theirs.raw_decrypt(int(private.encrypt([number])[0])) == number


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 2046))
def test_ours_reads_python_paillier(private, theirs, number):
    assert private.decrypt([mpz(theirs.public_key.raw_encrypt(number))]) == [number]


def test_python_paillier_reads_a_packed_matrix(key_pair, theirs):
    secret = np.array([[3, (1 << 59) - 5]], np.uint64)  # 3 and -5
    plaintext = theirs.raw_decrypt(int.from_bytes(key_pair.encrypt(secret, PRODUCT)[0].tobytes(), "big"))
    width = Layout.of(PRODUCT, 2048).width
    assert plaintext - int(theirs.public_key.n) == 3 - (5 << 8 * width)


def test_a_generated_key_has_the_right_size_and_suits(private):
    for bits in (2048, 3072):
        key = PrivateKey.generate(bits)
        assert key.public.n.bit_length() == bits
        assert suits(key._p, key._q, bits)
    assert not suits(private._p, private._p, 2048)
    assert not suits(private._p, private._q + 2, 2048) or gmpy2.is_prime(private._q + 2)


def test_fresh_residues_are_encryptions_of_zero_that_reach_the_whole_group(private):
    """A subgroup would tell the owner, who sees through all residues, something about every product."""
    for taken in (private.public.fresh_residues(3, 1), private.public.fresh_residues(250, 2)):
        assert not any(private.decrypt(taken))
        assert len(set(taken)) == len(taken)
    characters = {(gmpy2.legendre(r, private._p), gmpy2.legendre(r, private._q)) for r in taken}
    assert len(characters) == 4
    owned = private.encrypt([0] * 250)
    assert not any(private.decrypt(owned)) and len(set(owned)) == 250


def test_the_primes_are_never_shown(private, key_pair):
    shown = repr(private) + repr(key_pair) + repr(private.public) + str(vars(key_pair))
    for secret in (private._p, private._q):
        assert str(secret) not in shown and hex(secret) not in shown
    with pytest.raises(TypeError):
        pickle.dumps(private)


def test_the_key_file_is_for_the_user_alone_and_opens_again(key_pair, tmp_path):
    key_pair.save(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert Paillier2048().open(tmp_path / "key").public_bytes() == key_pair.public_bytes()
    with pytest.raises(ConfigError, match="2048 bits, not 3072"):
        Paillier().open(tmp_path / "key")


@pytest.mark.parametrize("position", [30, 200, -1])
def test_a_damaged_key_file_is_refused(key_pair, tmp_path, position):
    key_pair.save(tmp_path / "key")
    content = bytearray((tmp_path / "key").read_bytes())
    content[position] ^= 2
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError):
        Paillier2048().open(tmp_path / "key")
    (tmp_path / "key").write_bytes(content[:-3])
    with pytest.raises(ConfigError):
        Paillier2048().open(tmp_path / "key")


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_bytes_as_a_public_key_are_a_modulus_or_a_typed_error(private, data):
    good = private.public.to_bytes()
    place, flip = data.draw(st.integers(0, 255)), data.draw(st.integers(1, 255))
    damaged = good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :]
    content = data.draw(st.binary(max_size=300) | st.binary(min_size=256, max_size=256) | st.just(damaged))
    n = mpz(int.from_bytes(content, "big"))
    small = gmpy2.gcd(n, gmpy2.primorial(1 << 12)) != 1
    if len(content) != 256 or n.bit_length() != 2048 or small or gmpy2.is_prime(n) or gmpy2.is_power(n):
        with pytest.raises(FrameError):
            Paillier2048().evaluator(content)
    else:
        assert Paillier2048().evaluator(content).key_bits == 2048


def test_a_modulus_that_hides_nothing_is_refused(private):
    prime = gmpy2.next_prime(mpz(1) << 2047)
    even, square = (mpz(1) << 2047) + 2, private._p * private._p
    for modulus in (prime, even, 3 * gmpy2.next_prime(mpz(1) << 2046), square):
        with pytest.raises(FrameError):
            PublicKey.from_bytes(modulus.to_bytes(256, "big"), 2048)
    with pytest.raises(FrameError):
        Paillier().evaluator(private.public.to_bytes())  # 2048 bits only when asked for by name


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_bytes_as_ciphertexts_are_read_or_a_typed_error(private, key_pair, data):
    size = data.draw(st.sampled_from([512, 512, 512, 0, 511, 513]))
    count = data.draw(st.sampled_from([1, 1, 1, 0, 2]))
    text = data.draw(st.binary(min_size=size * count, max_size=size * count))
    ciphertexts = np.frombuffer(text, np.uint8).reshape(count, size)
    evaluator = Paillier2048().evaluator(key_pair.public_bytes())
    number, n = int.from_bytes(text, "big"), private.public.n
    if (count, size) == (1, 512) and number < n * n and gmpy2.gcd(number, n) == 1:
        assert key_pair.receive_shares(ciphertexts, PRODUCT).shape == (1, 2)
        assert evaluator.load(ciphertexts, PRODUCT).ciphertexts == [number]
    else:
        for read in (key_pair.receive_shares, evaluator.load):
            with pytest.raises(FrameError):
                read(ciphertexts, PRODUCT)


def test_ciphertexts_outside_the_group_are_refused(private, key_pair):
    n, size = private.public.n, 512
    evil = [
        mpz(0),
        n,
        3 * n,
        n * n - n,
        private._p,
        5 * private._q * private._q,
        n * n,
        n * n + 1,
        (mpz(1) << 4096) - 1,
    ]
    for number in evil:
        row = np.frombuffer(number.to_bytes(size, "big"), np.uint8)[None]
        with pytest.raises(FrameError):
            key_pair.receive_shares(row, PRODUCT)
    good = key_pair.encrypt(random_ring((1, 2)), PRODUCT)
    for wrong in (good.astype(np.int64), good[0], good[:, :-1], np.vstack([good, good]), good.tobytes()):
        with pytest.raises(FrameError):
            key_pair.receive_shares(wrong, PRODUCT)
