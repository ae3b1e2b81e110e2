"""If these fail, figure 4 compares schedules that differ in more than what stands on its axis."""

import numpy as np
import pytest

from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.schedule import _variants, with_local_updates
from colonnade.bench.causal.variants import fifteen_attributes
from colonnade.bench.registry import BENCHES
from colonnade.discover.validator import Validator
from colonnade.errors import RunError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.progress import Progress


def variants(recipe):
    return {variant.method.name: variant for variant in _variants(recipe, "default", 1000)}


@pytest.mark.parametrize(("recipe", "exchanges"), [("default", 800), ("paper", 31_500)])
def test_updates_stay_as_many_while_exchanges_become_fewer(recipe, exchanges):
    by_updates = {
        variant.keys["local_updates"]: variant.keys["exchanges"]
        for name, variant in variants(recipe).items()
        if ", Q " in name
    }
    assert by_updates[1] == exchanges
    for updates, left in by_updates.items():
        assert left * updates == pytest.approx(exchanges, rel=0.02)


def test_penalties_weigh_as_much_for_each_update():
    """Four looks at single updates, against one look at four of them: sparsity alone, then the weight of acyclicity."""
    own = DiscoverySettings(sparsity=0.02, growth=0.5)
    scaled = with_local_updates(own, 4)
    chain = np.triu(np.full((4, 4), 2.0), k=1)
    circle = chain + np.eye(4, k=-1)
    one = Validator(4, sparsity=own.sparsity, growth=own.growth)
    four = Validator(4, sparsity=scaled["sparsity"], growth=scaled["growth"])
    strengths = chain
    for _ in range(4):
        strengths = strengths * one.judge(strengths, 0.1).factors
    np.testing.assert_allclose(chain * four.judge(chain, 0.1).factors, strengths, rtol=1e-9)
    for _ in range(4):
        one.judge(circle, 0.1)
    four.judge(circle, 0.1)
    # The weight is told per exchange, which stands for four updates.
    assert four.weight == pytest.approx(4 * one.weight)


def test_gamma_is_the_published_one_in_both_recipes():
    for recipe in ("default", "paper"):
        found = {variant.keys["gamma"] for variant in variants(recipe).values()}
        assert {0.0, 0.004, 0.005, 0.006, 0.007, 0.02} <= found
    assert {variant.keys["gamma"] for name, variant in variants("paper").items() if ", Q " in name} == {0.006}
    assert variants("paper")["colonnade, γ 0.004, published recipe"].method.settings["growth"] == 0.008


def test_published_values_stand_beside_the_published_recipe_alone():
    said = {name: variant.published.f1 for name, variant in variants("paper").items() if variant.published.f1}
    assert said == {"colonnade, Q 1, published recipe": 0.72, "colonnade, Q 5, published recipe": 0.53}
    assert all(variant.published.f1 is None for variant in variants("default").values())


def test_a_schedule_that_runs_away_costs_one_row_and_not_the_figure():
    wild = Colonnade(False, {"epochs": 20, "refit_epochs": 0, "local_passes": 20, "learning_rate": 10.0})
    with pytest.raises(RunError, match="no graph was found"):
        wild.score(fifteen_attributes("smoke")[1](0), 0)


def test_the_figure_comes_out_with_all_baselines():
    rows = BENCHES["vfedcd-fig4"]("smoke", Progress())
    means = {row["method"]: row for row in rows if row["seed"] is None}
    assert {"random", "empty"} <= set(means) and all(row["shd"] is not None for row in rows)
    few, many = means["colonnade, Q 5"], means["colonnade, Q 1"]
    assert few["exchanges"] < many["exchanges"] and few["bytes"] < many["bytes"]
