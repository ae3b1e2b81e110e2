"""If these fail, rows of a figure can't be told apart, or a bench that was stopped mixes variants up."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.sets import fresh
from colonnade.bench.causal.variants import Variant, drawn, looks, recipe_settings, run_variants, suffixed
from colonnade.bench.workers import ALONE
from colonnade.discover.discover import discover
from colonnade.federation.discovery import RECIPES, DiscoverySettings
from colonnade.progress import Progress

TINY = drawn(Design(6, 8, records=60), 3)


@dataclass(frozen=True)
class Fixed:
    """Scores what it is told."""

    name: str
    shd: int = 1
    secure: bool | None = False
    seeded: bool = True

    def score(self, data, seed):
        return {"shd": self.shd, "f1": 0.5, "correlation": 0.1 * self.shd}

    def files(self):
        return []


def rows_of(variants, preset="smoke"):
    return run_variants("t", variants, TINY, preset, Progress(), folder=None, workers=ALONE)


def test_every_row_names_what_its_variant_is_and_what_the_paper_says():
    said = Published(42, correlation=0.804)
    variants = [Variant(Fixed("loud", 3), {"epsilon": 64.0}, said), Variant(Fixed("quiet"), {"looks": 5})]
    rows = rows_of(variants, "default")
    assert [row["method"] for row in rows[:4]] == ["loud", "quiet", "random", "empty"]
    assert [row["seed"] for row in rows if row["method"] == "loud"] == [None, 0, 1, 2, 3, 4]
    loud, quiet, empty = rows[0], rows[1], rows[3]
    assert (loud["epsilon"], loud["looks"], loud["shd"], loud["correlation"]) == (64.0, None, 3, 0.3)
    assert (loud["published_shd"], loud["published_correlation"]) == (42, 0.804)
    assert (quiet["epsilon"], quiet["looks"], quiet["published_correlation"]) == (None, 5, None)
    assert (empty["epsilon"], empty["shd"], empty["f1"]) == (None, 8, 0)


def test_two_variants_of_one_name_are_refused():
    with pytest.raises(AssertionError, match="one name"):
        rows_of([Variant(Fixed("same", 1)), Variant(Fixed("same", 2))])


def test_recipes_are_the_ones_that_users_run():
    assert DiscoverySettings.model_validate(recipe_settings("default", "default")) == DiscoverySettings()
    assert recipe_settings("paper", "paper", depth=2) == {**RECIPES["paper"], "depth": 2}
    assert recipe_settings("paper", "smoke")["epochs"] < 5
    assert len({suffixed("a", "default"), suffixed("a", "paper")}) == 2


@pytest.mark.parametrize("changes", [{"epochs": 3, "refit_epochs": 2}, {"epochs": 7, "batch_size": 20}])
def test_looks_are_counted_as_the_coordinator_counts_them(changes):
    settings = recipe_settings("default", "smoke", **changes, validate_every=2)
    graph = discover(TINY[1](0).federation(), secure=False, progress=False, **settings)
    assert looks(settings, records=60) * 2 == graph.cost["exchanges"]


def test_fresh_sets_are_split_as_asked_and_are_no_set_of_another_bench():
    _, load = drawn(Design(8, 10, records=50), (5, 3))
    assert load(0).columns == "5/3"
    assert not load(0).frame.equals(fresh(Design(8, 10, records=50), 0).frame)


def test_another_process_finds_the_kept_rows_of_a_variant():
    """Otherwise a bench that was stopped starts again from nothing; another setting must not find them."""
    look = (
        "from colonnade.bench.causal import ablation, table, variants\n"
        "load = variants.fifteen_attributes('default')[1]\n"
        "for variant in ablation._variants('default'):\n"
        "    print(table.Job('stored', load, variant.method, 0, None).file_name)"
    )
    names = [
        subprocess.run([sys.executable, "-c", look], capture_output=True, check=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert names[0] == names[1] and len(set(names[0])) == len(names[0]) > 3


def test_settings_decide_which_kept_row_is_found():
    assert repr(Colonnade(False, recipe_settings("paper", "default", growth=0.0))) != repr(
        Colonnade(False, recipe_settings("paper", "default"))
    )
