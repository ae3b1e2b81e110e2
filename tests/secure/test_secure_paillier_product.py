"""If these fail, products of powers are wrong for some method, or a product takes more memory than it was given."""

import numpy as np
import pytest
from gmpy2 import mpz

from colonnade.secure import paillier_product
from colonnade.secure.paillier_product import Method, choose_method, premultiply
from colonnade.secure.paillier_threads import in_threads

MODULUS = mpz(2**127 - 1)


@pytest.mark.parametrize("window", [1, 4, 7, 12])
@pytest.mark.parametrize("kind", ["tables", "buckets"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_method_gives_the_product_of_powers(monkeypatch, kind, window, threads):
    monkeypatch.setattr(paillier_product, "choose_method", lambda *_: Method(kind, window))
    rng = np.random.default_rng(window)
    top = (1 << 20) - 1
    plain = np.concatenate([rng.integers(-top, top + 1, (5, 4)), [[0] * 4, [top] * 4, [-top] * 4, [1, 0, -1, top]]])
    bases = [mpz(int(base)) for base in rng.integers(2, 1 << 62, 4)]
    expected = []
    for row in plain.tolist():
        value = 1
        for base, exponent in zip(bases, row, strict=True):
            value = value * pow(int(base), exponent, int(MODULUS)) % int(MODULUS)
        expected.append(value)
    assert premultiply(plain, bases, MODULUS, threads, 1 << 30) == expected


def test_tables_for_many_rows_buckets_for_long_ones_and_never_beyond_the_memory():
    assert choose_method(1000, 25, 768, 1 << 30).kind == "tables"
    assert choose_method(25, 1000, 768, 1 << 30).kind == "buckets"
    small = choose_method(1000, 25, 768, 1 << 20)
    assert small.kind == "buckets" or (25 << small.window) * 768 <= 1 << 20
    assert choose_method(1000, 25, 768, 0).kind == "buckets"


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("threads", [0, 1, 3, 20])
def test_threads_keep_the_order(count, threads):
    assert in_threads(lambda part: [2 * item for item in part], range(count), threads) == [2 * i for i in range(count)]
