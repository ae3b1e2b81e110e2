"""If these fail, bytes from a peer can stop a party with something else than a typed error."""

import random

import numpy as np
import pytest
from bfv_parts import evaluator, key_pair

from colonnade.errors import FrameError
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvEvaluator, tile_for
from colonnade.secure.bfv_public import ZEROS
from colonnade.secure.bfv_words import PRIMES, SENT_PRIMES, to_wire

PRODUCT = Product(2, 2, 2)
MUTATIONS = 1000


def fresh():
    return key_pair().encrypt(np.ones((2, 2), np.uint64), PRODUCT)


def masked():
    encrypted = evaluator().load(fresh(), PRODUCT)
    prepared = evaluator().prepare(np.ones((2, 2), np.int64))
    return evaluator().to_shares(evaluator().premultiply(prepared, encrypted)).ciphertexts


def flip(octets, rng):
    changed = octets.copy()
    for _ in range(rng.choice([1, 1, 2, 50])):
        changed.reshape(-1)[rng.randrange(changed.size)] ^= 1 << rng.randrange(8)
    return changed


def overwrite(octets, rng):
    changed = octets.copy()
    start = rng.randrange(changed.size)
    changed.reshape(-1)[start : start + rng.choice([1, 7, 100, changed.size])] = rng.choice([0, 1, 255])
    return changed


def noise(octets, rng):
    return np.frombuffer(rng.randbytes(octets.size), np.uint8).reshape(octets.shape)


def cut(octets, rng):
    return octets[:, : rng.randrange(octets.shape[1])]


def lengthen(octets, rng):
    return np.pad(octets, ((0, rng.randrange(3)), (rng.randrange(2), rng.randrange(1, 9))))


def other_shape(octets, rng):
    shapes = [octets.reshape(-1), octets[None], octets.reshape(-1, 7), octets[:0], octets.reshape(-1, 1)]
    return rng.choice(shapes)


def other_type(octets, rng):
    return octets.astype(rng.choice([np.int8, np.uint16, np.float32, np.bool_, np.uint64]))


WAYS = (flip, flip, overwrite, noise, cut, lengthen, other_shape, other_type)


def outcomes(valid, take):
    rng, refused, taken = random.Random(0), 0, 0
    for _ in range(MUTATIONS):
        mutated = rng.choice(WAYS)(valid, rng)
        try:
            take(mutated)
        except FrameError as error:
            refused += 1
            assert len(str(error)) < 300
        else:
            taken += 1
    return refused, taken


def test_mutated_secret_factors_are_refused_or_computed_with_but_never_stop_the_holder_otherwise():
    prepared = evaluator().prepare(np.array([[0, 1], [0, 0]]))

    def take(octets):
        evaluator().to_shares(evaluator().premultiply(prepared, evaluator().load(octets, PRODUCT)))

    refused, taken = outcomes(fresh(), take)
    assert refused > MUTATIONS / 3
    assert taken > 0


def test_mutated_answers_are_refused_or_decrypt_to_something_but_never_stop_the_owner_otherwise():
    refused, taken = outcomes(masked(), lambda octets: key_pair().receive_shares(octets, PRODUCT))
    assert refused > MUTATIONS / 3
    assert taken > 0


def test_mutated_public_keys_are_refused_or_used_but_never_stop_the_holder_otherwise():
    valid = np.frombuffer(key_pair().public_bytes(), np.uint8)[None]
    refused, _ = outcomes(valid, lambda octets: BfvEvaluator(octets.tobytes()))
    assert refused > MUTATIONS / 4


@pytest.mark.parametrize(
    ("primes", "take"),
    [
        (PRIMES, lambda octets: evaluator().load(octets[None], PRODUCT)),
        (SENT_PRIMES, lambda octets: key_pair().receive_shares(octets[None], PRODUCT)),
        (PRIMES, lambda octets: BfvEvaluator(octets.tobytes() * ZEROS)),
    ],
)
def test_words_at_the_edge_of_their_range_are_told_apart(primes, take):
    words = np.ones((2, len(primes), 8192), np.uint64)
    words[0, -1, -1] = primes[-1] - 1
    take(to_wire(words))
    words[0, -1, -1] = primes[-1]
    with pytest.raises(FrameError, match="outside its range"):
        take(to_wire(words))
    words[1], words[0, -1, -1] = 0, 0
    with pytest.raises(FrameError, match="not encrypted"):
        take(to_wire(words))


def test_ciphertexts_that_cancel_each_other_do_not_stop_the_holder():
    """SEAL raises when a result hides nothing; a peer could choose ciphertexts so that this tells it about columns."""
    product = Product(1, 9000, 1)
    ciphertexts = key_pair().encrypt(np.zeros((9000, 1), np.uint64), product)
    assert len(ciphertexts) > 1
    ciphertexts[:] = ciphertexts[0]
    plain = np.zeros((1, 9000), np.int64)
    plain[0, 0], plain[0, tile_for(product).depth] = 1, -1
    multiplied = evaluator().premultiply(evaluator().prepare(plain), evaluator().load(ciphertexts, product))
    assert not multiplied.words.any()
    assert evaluator().to_shares(multiplied).share.shape == (1, 1)
