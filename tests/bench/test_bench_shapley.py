"""If these fail, the cost of Shapley weights that the documentation tells can't be traced to a measurement."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "shapley.py"
SPECIFICATION = importlib.util.spec_from_file_location("shapley_bench", SCRIPT)
shapley_bench = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(shapley_bench)


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """What the script writes about runs whose times are known: rounds of 10 and 20 ms, looks of 4 ms."""
    times = iter([(0.01, 0.004), (0.02, 0.004)])
    monkeypatch.setattr(shapley_bench, "one_run", lambda arguments: next(times))
    monkeypatch.setattr(shapley_bench.torch, "set_num_threads", lambda count: None)
    out = tmp_path / "shapley.json"
    monkeypatch.setattr("sys.argv", ["bench/shapley.py", "--batch", "256", "--rounds", "2", "--out", str(out)])
    monkeypatch.setattr(shapley_bench, "sampling_error", lambda games: 0.0123)
    shapley_bench.main()
    return json.loads(out.read_text())


def test_one_update_and_one_spread_over_rounds_are_told_apart(stored):
    cost, error = stored["rows"]
    assert (cost["round_seconds"], cost["update_seconds"], cost["every"], cost["runs"]) == (0.01, 0.004, 10, 2)
    assert (cost["update_share"], cost["amortised_share"]) == (pytest.approx(0.3), pytest.approx(0.03))
    assert cost["update_share_ci"] == pytest.approx(10 * cost["amortised_share_ci"], rel=1e-3)
    assert (cost["batch"], cost["looked_at"], cost["hidden"]) == (256, 128, "64-32-32")
    assert error == {"parties": 8, "sampled_error": 0.0123}


def test_the_result_has_the_shape_of_all_and_no_path_of_this_machine(stored, tmp_path):
    assert list(stored) == ["bench", "preset", "command", "versions", "device", "notes", "rows"]
    assert stored["command"] == "python bench/shapley.py --batch 256 --rounds 2 --out shapley.json"
    assert str(tmp_path) not in json.dumps(stored)
