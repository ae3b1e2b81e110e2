"""If these fail, masks made in the background are wrong, used twice, or worker processes are left behind."""

import os
import time

import numpy as np
import psutil
import pytest
from bfv_parts import key_pair

from colonnade.secure import bfv_pool, ring
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvEvaluator
from colonnade.secure.bfv_words import library


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


@pytest.fixture
def holder():
    with BfvEvaluator(key_pair().public_bytes(), workers=2) as made:
        yield made


def children():
    return [
        child for child in psutil.Process().children() if "colonnade.secure.bfv_worker" in " ".join(child.cmdline())
    ]


def multiply(holder):
    product = Product(40, 3, 300)
    plain, secret = np.arange(120).reshape(40, 3), ring.random_ring((3, 300))
    encrypted = holder.load(key_pair().encrypt(secret, product), product)
    masked = holder.to_shares(holder.premultiply(holder.prepare(plain), encrypted))
    share = key_pair().receive_shares(masked.ciphertexts, product)
    assert (ring.wrap(masked.share + share) == ring.matmul(plain, secret)).all()


def test_masks_from_workers_hide_and_cancel_like_any_other(holder):
    wait_until(lambda: holder.masks_ready >= 4)
    before = holder.masks_ready
    multiply(holder)
    assert before >= 4


def test_no_mask_is_handed_out_twice(holder):
    wait_until(lambda: holder.masks_ready >= 8)
    shares = np.array([holder._mask().share[:4] for _ in range(12)])
    assert len(np.unique(shares)) == shares.size


def test_no_mask_that_was_made_on_the_spot_is_handed_out_twice():
    """They are made a few at a time; each must hide with randomness of its own."""
    holder, here = BfvEvaluator(key_pair().public_bytes()), library()
    masks = [holder._mask() for _ in range(9)]
    for parts in ([here.words(mask.zero)[1] for mask in masks], [here.words(mask.noise)[1] for mask in masks]):
        starts = np.array([part[:, :4000] for part in parts])
        assert all((starts[i] == starts[j]).mean() < 0.2 for i in range(9) for j in range(i))
    shares = np.array([mask.share[:4] for mask in masks])
    assert len(np.unique(shares)) == shares.size


def test_the_stock_is_bounded(monkeypatch):
    monkeypatch.setattr(bfv_pool, "STOCK", 3)
    with BfvEvaluator(key_pair().public_bytes(), workers=1) as holder:
        wait_until(lambda: holder.masks_ready == 3)
        time.sleep(0.1)
        assert holder.masks_ready == 3
        holder._mask()
        wait_until(lambda: holder.masks_ready == 3)


def test_a_fork_does_not_use_the_parents_masks(holder, monkeypatch):
    """A copy of the process has a copy of the stock: the same mask over two products would show their difference."""
    wait_until(lambda: holder.masks_ready >= 2)
    stocked = holder._pool._stock.get_nowait()
    holder._pool._stock.put(stocked)
    holder._pool._made_here()
    rest = list(holder._pool._rest)
    assert rest
    monkeypatch.setattr(os, "getpid", lambda: -1)
    drawn = [holder._mask() for _ in range(holder.masks_ready)]
    assert not any((mask.share == kept.share).any() for mask in drawn for kept in (stocked, *rest))


def test_products_go_on_when_workers_die(holder):
    started = children()
    assert started
    for child in started:
        child.kill()
    wait_until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started))
    while holder.masks_ready:
        holder._mask()
    multiply(holder)


def test_no_worker_survives_its_evaluator():
    holder = BfvEvaluator(key_pair().public_bytes(), workers=1)
    started = children()
    assert started
    holder.close()
    holder.close()
    assert not any(child.is_running() for child in started)
    multiply(holder)


def test_a_forgotten_evaluator_leaves_no_worker():
    holder = BfvEvaluator(key_pair().public_bytes(), workers=1)
    started = children()
    assert started
    del holder
    wait_until(lambda: not any(child.is_running() for child in started))
