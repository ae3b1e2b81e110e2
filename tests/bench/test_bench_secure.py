"""If these fail, the speed we claim for encrypted products is not the speed of the work that is claimed."""

from itertools import permutations

import numpy as np
import pytest

from colonnade.bench import phe_baseline, secure_iteration, secure_matmul, secure_work
from colonnade.bench.phe_baseline import PheCosts, measure_phe
from colonnade.bench.secure_work import SIZES, Pace, Parties, Size
from colonnade.errors import RunError
from colonnade.progress import Progress
from colonnade.secure import BACKENDS, Product, backend

KEYS = {
    "backend", "n", "d", "parties", "direction", "per_second", "ratio_to_phe", "bytes", "peak_memory",
    "statistical_bits", "key_bits",
}  # fmt: skip


class Notes(Progress):
    def __init__(self):
        self.notes = []

    def message(self, text):
        self.notes.append(text)


@pytest.fixture
def quick(monkeypatch):
    """Tiny sizes, the quick backends, no long preparation."""
    backend("bfv")
    backend("paillier")
    for module in (secure_matmul, secure_iteration):
        monkeypatch.setattr(module, "SIZES", {"smoke": [Size(4, 4, 2), Size(4, 5, 3)]})
        monkeypatch.setattr(module, "secure_backends", lambda preset: [BACKENDS["bfv"], BACKENDS["paillier-2048"]])
        monkeypatch.setattr(module, "measure_phe", lambda: PheCosts(0.01, 0.0001, 0.01, 0.003))
    monkeypatch.setattr(secure_work, "_WARM", 1)


def test_every_row_has_the_agreed_keys_and_every_backend_a_row(quick):
    progress = Notes()
    for run, directions in ((secure_matmul.run, {"forward", "backward"}), (secure_iteration.run, {"both"})):
        rows = run("smoke", progress)
        assert all(set(row) == KEYS for row in rows)
        assert {row["backend"] for row in rows} == {"phe", "bfv", "paillier-2048"}
        assert {row["direction"] for row in rows} == directions
        assert len(rows) == 3 * 2 * len(directions)
        assert all(row["statistical_bits"] >= 40 and row["per_second"] > 0 and row["bytes"] > 0 for row in rows)
        assert all(row["ratio_to_phe"] == 1 for row in rows if row["backend"] == "phe")
    assert any("extrapolated" in note and "rows · inner · columns" in note for note in progress.notes)


def test_what_takes_too_long_is_left_out_and_named(quick, monkeypatch):
    monkeypatch.setattr(secure_matmul, "LONGEST", {"smoke": 1e-9})
    progress = Notes()
    rows = secure_matmul.run("smoke", progress)
    measured = {(row["d"], row["backend"]) for row in rows if row["backend"] != "phe"}
    assert measured == {(4, "bfv"), (5, "bfv"), (4, "paillier-2048")}, "the default backend is measured at every size"
    assert sum(note.startswith("left out") for note in progress.notes) == 2


def test_an_iteration_is_as_much_work_as_published():
    for size in SIZES["paper"]:
        products = [product for *_, product in secure_iteration._products(size)]
        work = sum(product.multiplications for product in products)
        exact = 20 * size.n * (size.d**2 - sum(width**2 for width in size.widths))
        assert work == exact and sum(size.widths) == size.d
        if size.d % size.parties == 0:
            assert work == 20 * size.n * size.d**2 * (size.parties - 1) // size.parties
        assert len(products) == 2 * len(list(permutations(range(size.parties), 2)))


def test_the_published_sizes_are_all_there():
    asked = {(n, d, parties) for n in (16, 256, 1000) for d in (10, 50, 100, 200) for parties in (2, 3, 5)}
    assert {(size.n, size.d, size.parties) for size in SIZES["paper"]} == asked


def test_a_wrong_product_stops_the_bench():
    backend("paillier")
    parties = Parties(BACKENDS["paillier-2048"], 2)
    pair = parties.pair(Size(2, 4, 2), 0, 1)
    assert pair.run(Product(2, 2, 20), "forward").seconds > 0
    pair._columns = pair._columns + 1
    with pytest.raises(RunError, match="do not add up"):
        pair.run(Product(2, 2, 20), "forward")


def test_python_paillier_is_really_run_and_composed_by_the_printed_rule(monkeypatch):
    monkeypatch.setattr(phe_baseline, "_ROUNDS", 1)
    costs = measure_phe()
    assert costs.seconds(Product(2, 3, 5)) == pytest.approx(
        15 * costs.encrypt + 30 * costs.multiply + 10 * (costs.mask + costs.decrypt)
    )
    for number in (costs.encrypt, costs.multiply, costs.mask, costs.decrypt):
        assert number > 0 and f"{number:.3g}" in costs.rule()


def test_the_pace_lets_the_first_through():
    pace = Pace(10)
    assert not pace.too_long("a", "forward", 10**12)
    pace.note("a", "forward", 100.0)
    assert pace.too_long("a", "forward", 1001) and not pace.too_long("a", "forward", 999)
    assert not pace.too_long("a", "backward", 10**12)


def test_bytes_are_those_of_both_ways():
    backend("bfv")
    with Parties(BACKENDS["bfv"], 2) as parties:
        product = Product(2, 2, 20)
        sent = parties.key_pairs[1].encrypt(np.zeros((2, 20), np.uint64), product)
        assert parties.pair(Size(2, 4, 2), 0, 1).run(product, "forward").wire_bytes > sent.nbytes
