"""If these fail, table 3 credits a step with what another one did, or hides that UnSplit is a weak attack."""

import pytest

from colonnade.bench.causal import ablation
from colonnade.bench.causal.published import TABLE3
from colonnade.bench.registry import BENCHES
from colonnade.progress import Progress

STEPS = ("framework", "framework + validator", "colonnade")


@pytest.fixture(scope="module")
def variants():
    return {variant.method.name: variant for variant in ablation._variants("default")}


@pytest.mark.parametrize("suffix", ["", ", published recipe"])
def test_each_step_adds_one_thing(variants, suffix):
    framework, validated, full = (variants[step + suffix].method for step in STEPS)
    assert framework.settings["growth"] == 0
    assert {**framework.settings, "growth": None} == {**validated.settings, "growth": None}
    assert validated.settings.get("growth") != 0 and validated.settings == full.settings
    assert [method.secure for method in (framework, validated, full)] == [False, False, True]
    assert not (framework.encrypted or validated.encrypted)


def test_the_short_recipe_is_really_encrypted_and_the_long_one_says_that_it_is_not(variants):
    assert {name for name, variant in variants.items() if variant.keys["encrypted"]} == {"colonnade"}


def test_published_values_stand_beside_their_steps(variants):
    for suffix in ("", ", published recipe"):
        said = [variants[step + suffix].published for step in STEPS]
        assert said == list(TABLE3.values())
    assert variants["colonnade, verdict"].published.correlation is None


def test_the_table_comes_out_with_all_baselines():
    rows = BENCHES["vfedcd-table3"]("smoke", Progress())
    means = {row["method"]: row for row in rows if row["seed"] is None}
    assert {*STEPS, "colonnade, verdict", "permuted records", "random", "empty"} <= set(means)
    for step in STEPS:
        row = means[step]
        assert row["correlation"] > means["permuted records"]["correlation"]
        assert row["shd"] is not None and row["f1"] is not None and row["seconds"] > 0
    assert means["colonnade"]["published_correlation"] == 0.152
    assert means["framework, cycles kept, published recipe"]["recall"] >= means["framework, published recipe"]["recall"]
