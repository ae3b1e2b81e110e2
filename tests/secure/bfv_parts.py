"""What several tests of the backend `bfv` need."""

from functools import cache

import numpy as np

from colonnade.secure import ring
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvEvaluator, BfvKeyPair

LARGEST_PLAIN = 2**20 - 1


@cache
def key_pair():
    return BfvKeyPair.generate()


@cache
def evaluator():
    return BfvEvaluator(key_pair().public_bytes())


def product_of(plain, secret, transposed=False, maker=evaluator):
    """Return the two shares of a product, and what the owner got for its share."""
    left = plain.T if transposed else plain
    product = Product(*left.shape, secret.shape[1])
    holder = maker()
    encrypted = holder.load(key_pair().encrypt(secret, product), product)
    multiply = holder.premultiply_transposed if transposed else holder.premultiply
    masked = holder.to_shares(multiply(holder.prepare(plain), encrypted))
    return masked, key_pair().receive_shares(masked.ciphertexts, product)


def assert_exact(plain, secret, transposed=False):
    masked, share = product_of(plain, secret, transposed)
    exact = ring.matmul(np.ascontiguousarray(plain.T if transposed else plain), secret)
    assert (ring.wrap(masked.share + share) == exact).all()
    assert masked.statistical_bits >= 40
