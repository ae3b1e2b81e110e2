"""Somebody dies during a discovery: if these fail, the others wait for ever, or the graph is another one afterwards."""

import random

import pytest
from test_end_discover import assert_same, over_network
from village import COORDINATOR, Village

pytestmark = pytest.mark.slow

KILLS = 2
"""Of each role, in one run."""


def test_whoever_is_killed_is_named_and_the_resumed_run_finds_the_same_graph(tmp_path):
    settings = {"epochs": 16, "refit_epochs": 8, "checkpoint_every": 2}
    undisturbed = Village(tmp_path / "undisturbed", **settings)
    over_network(undisturbed)
    village = Village(tmp_path / "disturbed", **settings)
    rng = random.Random(0)
    victims = village.parties * KILLS
    rng.shuffle(victims)
    for victim in victims:
        village.start_all("--resume")
        # One to three looks at the graph in each attempt, and checkpoints at every other: the kills go through the run.
        village.wait_for_looks(1 + rng.randrange(3))
        assert village.kill(victim), "the victim had ended already"
        assert_the_others_name(village, victim)
    over_network(village, "--resume")
    for party in village.parties:
        assert_same(village.graph(party), undisturbed.graph(party))
    assert village.looks() > undisturbed.looks() > 20, "some looks were lost and taken again"


@pytest.mark.parametrize("victim", ["lab", COORDINATOR])
def test_who_is_killed_at_the_start_is_named_and_nothing_is_lost(tmp_path, victim):
    """During the alignment, and before the coordinator has said a word."""
    village = Village(tmp_path, secure=False)
    village.start_all()
    village.wait_for_messages("clinic", 1)
    assert village.kill(victim)
    assert_the_others_name(village, victim)
    over_network(village, "--resume")


def assert_the_others_name(village: Village, victim: str) -> None:
    codes = village.wait(60)
    for survivor in set(village.parties) - {victim}:
        assert codes[survivor] == 6, village.log(survivor)
        assert f"error: {victim}: " in village.log(survivor).splitlines()[-1], village.log(survivor)
