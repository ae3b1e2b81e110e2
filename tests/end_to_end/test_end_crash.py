"""A party dies: if these fail, somebody waits for ever, or a night's training is lost or silently changed."""

import random
import shutil

import pytest
from town import Town

pytestmark = pytest.mark.slow

KILLS = 4
ROLES = ["clinic", "lab", "insurer"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Weights and number of messages of a run that nobody disturbed, by missing-record policy."""
    found = {}
    for policy in ("drop", "impute"):
        town = crash_town(tmp_path_factory.mktemp(policy), policy)
        town.start_all()
        assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
        found[policy] = town.weights(), {party: town.sent_messages(party) for party in town.parties}
    return found


def crash_town(folder, policy: str) -> Town:
    town = Town(folder, 3, heartbeat=2.0, missing=policy, patience=3, optimizer={"schedule": "cosine"})
    if policy == "impute":
        town.write_table("lab", town.table.sample(frac=0.6, random_state=0).sort_index(), "lab.csv")
    return town


@pytest.mark.parametrize("policy", ["drop", "impute"])
@pytest.mark.parametrize("victim", ROLES)
def test_a_killed_party_is_named_and_the_resumed_run_ends_with_the_same_weights(tmp_path, undisturbed, victim, policy):
    weights, messages = undisturbed[policy]
    town = crash_town(tmp_path, policy)
    rng = random.Random(f"{victim}/{policy}")
    for _ in range(KILLS):
        town.start_all("--resume")
        # Every attempt gets a fifth of the way at most, and checkpoints carry it on: the kills spread over the run.
        assert town.kill_after(victim, 1 + rng.randrange(messages[victim] // 5)), "the victim had ended already"
        assert_the_others_name(town, victim)
    town.start_all("--resume")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    assert town.weights() == weights


@pytest.mark.parametrize("victim", ROLES)
def test_a_party_killed_before_it_was_seen_is_waited_for_and_named(tmp_path, undisturbed, victim):
    town = crash_town(tmp_path, "drop")
    town.start_all("--wait", "6")
    assert town.kill(victim)
    assert_the_others_name(town, victim)
    town.start_all("--resume")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    assert town.weights() == undisturbed["drop"][0]


@pytest.mark.parametrize("forgetful", ["clinic", "lab"])
def test_a_lost_run_folder_does_not_cost_the_others_their_checkpoints(tmp_path, forgetful):
    """Even a single checkpoint may be hours of learning; here it is one, and the folder is not there at all."""
    town = crash_town(tmp_path, "drop")
    town.start_all()
    for party in town.parties:
        town.wait_for_checkpoint(party)
    assert town.kill(forgetful)
    town.wait()
    town.run_folder(forgetful).rename(tmp_path / "lost")
    before = list((town.run_folder("insurer") / "checkpoints").iterdir())
    town.start_all("--resume")
    assert set(town.wait().values()) <= {6, 8}, [town.log(party) for party in town.parties]
    assert f"{forgetful} holds no checkpoint to go on from" in town.log("clinic")
    assert list((town.run_folder("insurer") / "checkpoints").iterdir()) == before
    shutil.rmtree(town.run_folder(forgetful))
    (tmp_path / "lost").rename(town.run_folder(forgetful))
    town.start_all("--resume")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]


def assert_the_others_name(town: Town, victim: str) -> None:
    codes = town.wait(60)
    for survivor in set(ROLES) - {victim}:
        if codes[survivor] != 0:  # it may have been done already
            assert codes[survivor] == 6, town.log(survivor)
            assert f"error: {victim}: " in town.log(survivor).splitlines()[-1], town.log(survivor)
