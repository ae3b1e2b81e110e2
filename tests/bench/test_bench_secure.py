"""If these fail, the speed we claim for encrypted products is not the speed of the work that is claimed."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from bench_parts import Notes

from colonnade.bench import phe_baseline, secure_blocks, secure_iteration, secure_matmul, secure_rows, secure_work
from colonnade.bench.phe_baseline import PheCosts, measure_phe
from colonnade.bench.secure_rows import CHECKED, SIZES
from colonnade.bench.secure_work import Cost, Pair, Parties, Size, Step, Task
from colonnade.errors import RunError
from colonnade.secure import BACKENDS, Product, backend
from colonnade.secure.paillier_packing import Layout
from colonnade.secure.ring import encode_plain

KEYS = {
    "backend", "n", "d", "parties", "direction", "per_second", "ratio_to_phe", "bytes", "peak_memory",
    "statistical_bits", "key_bits", "extrapolated_from",
}  # fmt: skip
PHE = PheCosts(0.01, 0.0001, 0.01, 0.003)
KEY_BITS = 2048


class Unencrypted:
    """Stands for the parties of a backend: seconds are ciphertexts, so that costs can be foretold."""

    name, key_bits = "paillier", KEY_BITS

    def __init__(self):
        self.asked = []

    def rehearse(self, task):
        self.asked += task.steps
        layouts = [(step.product, Layout.of(step.product, KEY_BITS)) for step in task.steps]
        total = sum((product.rows + product.inner) * layout.blocks for product, layout in layouts)
        return lambda: Cost(float(total), 512 * total, min(layout.statistical_bits for _, layout in layouts))


@pytest.fixture
def quick(monkeypatch):
    """Tiny sizes, the quick backends, no long preparation."""
    backend()
    sizes = {"smoke": [Size(4, 4, 2), Size(4, 5, 3)]}
    monkeypatch.setattr(secure_matmul, "SIZES", sizes)
    monkeypatch.setattr(secure_iteration, "SIZES", sizes)
    monkeypatch.setattr(secure_rows, "secure_backends", lambda preset: [BACKENDS["bfv"], BACKENDS["paillier-2048"]])
    monkeypatch.setattr(secure_rows, "measure_phe", lambda: PHE)
    monkeypatch.setattr(secure_work, "_WARM", 1)


@pytest.mark.parametrize("bench", [secure_matmul, secure_iteration])
def test_every_row_has_the_agreed_keys_and_every_backend_a_row(quick, bench):
    progress = Notes()
    rows = bench.run("smoke", progress)
    directions = {"forward", "backward"} if bench is secure_matmul else {"both"}
    assert all(set(row) == KEYS for row in rows)
    assert {row["backend"] for row in rows} == {"phe", "bfv", "paillier-2048"}
    assert {row["direction"] for row in rows} == directions
    assert len(rows) == 3 * 2 * len(directions)
    assert all(row["statistical_bits"] >= 40 and row["per_second"] > 0 and row["bytes"] > 0 for row in rows)
    assert all(row["ratio_to_phe"] == 1 for row in rows if row["backend"] == "phe")
    assert all((row["extrapolated_from"] is None) == (row["backend"] != "phe") for row in rows)
    assert any("extrapolated" in note and "rows · inner · columns" in note for note in progress.notes)
    assert any("blocks · seconds of one block" in note for note in progress.notes)


def test_what_is_too_large_is_extrapolated_and_says_so_but_never_under_the_default_backend(quick, monkeypatch):
    monkeypatch.setattr(secure_rows, "IN_FULL", {"smoke": 0})
    rows = [row for row in secure_matmul.run("smoke", Notes()) if row["d"] == 4]
    source = {(row["backend"], row["direction"]): row["extrapolated_from"] for row in rows}
    slots = [Layout.of(Product(*shape, 20), KEY_BITS).slots for shape in ((4, 2), (2, 4))]
    assert max(slots) < 20, "a product of one block would be measured in full"
    assert source == {
        ("phe", "forward"): "6 x 4 x 6",
        ("phe", "backward"): "6 x 4 x 6",
        ("bfv", "forward"): None,
        ("bfv", "backward"): None,
        ("paillier-2048", "forward"): f"4 x 2 x {slots[0]}",
        ("paillier-2048", "backward"): f"2 x 4 x {slots[1]}",
    }
    assert {row["peak_memory"] for row in rows if row["extrapolated_from"]} == {None}


@pytest.mark.parametrize("size", SIZES["default"], ids=str)
def test_the_rule_gives_what_a_measurement_in_full_would_give_where_seconds_are_ciphertexts(size):
    for task in (*secure_matmul.tasks_of(size), secure_iteration.task_of(size)):
        parties = Unencrypted()
        scaled = secure_blocks.extrapolate(parties, task)
        blocks = list(parties.asked)
        assert scaled.cost == parties.rehearse(task)()
        assert scaled.cost.seconds == secure_blocks.count_ciphertexts(task, KEY_BITS)
        for block in blocks:
            assert (block.holder, block.owner) == (0, 1)
            assert Layout.of(block.product, KEY_BITS).blocks == 1
        shapes = {(step.direction, step.product.rows, step.product.inner) for step in task.steps}
        assert {(block.direction, block.product.rows, block.product.inner) for block in blocks} == shapes
        assert scaled.source.count(" x ") == 2 * len(blocks) == 2 * len(shapes)


def test_bytes_and_bits_of_a_real_extrapolation_are_those_of_the_product(quick):
    task = secure_matmul.tasks_of(Size(3, 8, 2))[0]
    with Parties(BACKENDS["paillier-2048"], 2) as parties:
        scaled, full = secure_blocks.extrapolate(parties, task).cost, secure_blocks.measure_once_or_more(parties, task)
    assert replace(scaled, seconds=0) == replace(full, seconds=0)
    assert scaled.seconds > 0


def test_one_size_is_measured_and_extrapolated_and_the_ratio_is_told(monkeypatch):
    monkeypatch.setattr(secure_rows, "CHECKED", {"default": Size(256, 50, 2)})
    notes, parties = Notes(), Unencrypted()
    task = secure_iteration.task_of(Size(256, 50, 2))
    bench = secure_rows.Comparison("check", [task], 1, lambda costs: costs[0], background=False)
    measured, extrapolated = bench._rows(task, parties, PHE, "default", notes)
    assert measured["extrapolated_from"] is None and extrapolated["extrapolated_from"]
    assert measured["per_second"] == extrapolated["per_second"] and measured["bytes"] == extrapolated["bytes"]
    assert len(notes.notes) == 1 and notes.notes[0].endswith("ratio 1.000")
    parties.name = "paillier-2048"
    (only,) = bench._rows(task, parties, PHE, "default", notes)
    assert only["extrapolated_from"] and len(notes.notes) == 1


def test_the_checked_sizes_are_sizes_of_the_presets_and_more_than_one_block():
    for preset in ("smoke", "default"):
        assert CHECKED[preset] in SIZES[preset]
        for task in secure_matmul.tasks_of(CHECKED[preset]):
            assert not secure_blocks.is_one_block(task, 3072)


def test_a_small_task_is_measured_in_full():
    bench = secure_rows.Comparison("check", [], 1, lambda costs: costs[0], background=False)
    for shape, source in (((16, 5, 50), None), ((1000, 2, 10), None), ((256, 5, 50), "256 x 5 x 14")):
        task = Task(Size(0, 0, 0), "forward", (Step(0, 1, "forward", Product(*shape)),))
        (row,) = bench._rows(task, Unencrypted(), PHE, "default", Notes())
        assert row["extrapolated_from"] == source


def test_an_iteration_is_as_much_work_as_published():
    for size in SIZES["paper"]:
        task = secure_iteration.task_of(size)
        exact = 20 * size.n * (size.d**2 - sum(width**2 for width in size.widths))
        assert task.multiplications == exact and sum(size.widths) == size.d
        if size.d % size.parties == 0:
            assert exact == 20 * size.n * size.d**2 * (size.parties - 1) // size.parties
        assert len(task.steps) == 2 * len(list(permutations(range(size.parties), 2)))
        assert task.parties == size.parties


def test_the_published_sizes_are_all_there():
    asked = {(n, d, parties) for n in (16, 256, 1000) for d in (10, 50, 100, 200) for parties in (2, 3, 5)}
    for preset in ("default", "paper"):
        assert {(size.n, size.d, size.parties) for size in SIZES[preset]} == asked


def test_a_wrong_product_stops_the_bench():
    backend()
    step = Step(0, 1, "forward", Product(2, 2, 20))
    parties = Parties(BACKENDS["paillier-2048"], 2)
    columns = encode_plain(np.ones((2, 2)))
    pair = Pair(columns, parties.evaluators[0, 1], parties.key_pairs[1])
    assert pair.run(step).seconds > 0
    pair._columns = columns + 1
    with pytest.raises(RunError, match="do not add up"):
        pair.run(step)


def test_python_paillier_is_really_run_and_composed_by_the_printed_rule(monkeypatch):
    monkeypatch.setattr(phe_baseline, "_ROUNDS", 1)
    costs = measure_phe()
    assert costs.seconds(Product(2, 3, 5)) == pytest.approx(
        15 * costs.encrypt + 30 * costs.multiply + 10 * (costs.mask + costs.decrypt)
    )
    for number in (costs.encrypt, costs.multiply, costs.mask, costs.decrypt):
        assert number > 0 and f"{number:.3g}" in costs.rule()


def test_bytes_are_those_of_both_ways():
    backend()
    task = Task(Size(2, 4, 2), "forward", (Step(0, 1, "forward", Product(2, 2, 20)),))
    with Parties(BACKENDS["bfv"], 2) as parties:
        sent = parties.key_pairs[1].encrypt(np.zeros((2, 20), np.uint64), task.steps[0].product)
        assert parties.rehearse(task)().wire_bytes > sent.nbytes
