"""If these fail, table 7 compares one party and three on different runs, or beside the wrong published values."""

import pytest

from colonnade.bench.causal import collusion
from colonnade.bench.registry import BENCHES
from colonnade.progress import Progress


@pytest.fixture(scope="module")
def means():
    rows = BENCHES["vfedcd-table7"]("smoke", Progress())
    return {row["method"]: row for row in rows if row["seed"] is None}


def test_the_table_comes_out_with_all_baselines(means):
    alone, together = means["unsplit, single party"], means["unsplit, three of four parties"]
    assert (alone["attackers"], together["attackers"]) == ("one party", "all but one")
    assert (alone["published_correlation"], together["published_correlation"]) == (0.163, 0.179)
    assert (alone["shd"], alone["f1"]) == (together["shd"], together["f1"])
    assert alone["secure"] is together["secure"] is True
    assert {"permuted records", "random", "empty"} <= set(means)


def test_a_stronger_attack_stands_beside_unsplit(means):
    """Three of four who know the factors recover the columns of the fourth, which UnSplit does not."""
    assert means["verdict, three of four parties"]["correlation"] > 0.95
    assert means["verdict, three of four parties"]["published_correlation"] is None


def test_the_published_sizes_are_run(monkeypatch):
    chosen = []
    monkeypatch.setattr(collusion, "run_variants", lambda title, variants, data, *rest, **options: chosen.append(data))
    BENCHES["vfedcd-table7"]("default", Progress())
    data = chosen[0][1](0)
    assert (data.columns, len(data.frame.columns), len(data.frame)) == ("8/8/7/7", 30, 1000)
