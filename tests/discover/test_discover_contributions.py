"""If these fail, a party is paid for what it did not bring, or not for what it did, or all see more than agreed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from discovery_parts import chain, divided
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.discover.agreement import DiscoveryAgreement
from colonnade.discover.confidence import with_confidence
from colonnade.discover.contributions import HeldOut, brought, shares, worth
from colonnade.discover.coordinator import Coordinator, CoordinatorSeat
from colonnade.discover.curious import Curious
from colonnade.discover.decoders import Decoders
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.discover.party import Party, PartySeat
from colonnade.discover.timetable import Blocks
from colonnade.discover.variables import prepare_columns
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.progress import Progress
from colonnade.run import Run
from colonnade.wire.together import run_together

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
from village import COLUMNS, Village

QUICK = {"secure": False, "epochs": 60, "refit_epochs": 30, "held_out": 0.2}
SHORT = {
    "epochs": 6, "refit_epochs": 3, "batch_size": 60, "validate_every": 3, "hidden": 3,
    "least_strength": 0.0, "least_worth": 0.0, "evidence": 0.0,
}  # fmt: skip
"""Training ends long before edges do: an acyclic graph with all that fit in."""


def settings(**changes) -> DiscoverySettings:
    return DiscoverySettings.model_validate({**QUICK, **changes})


def find(tables, *edges, seed=0, **changes) -> CausalGraph:
    """Discover; the edges that a test is about are stated, so that it judges shares and not the search."""
    knowledge = {"required": [list(edge) for edge in edges]}
    return discover_tables(tables, settings(**changes), seed=seed, knowledge=knowledge, progress=False)


def people(count=500, seed=0) -> dict[str, pd.DataFrame]:
    """Two causes alike at two parties, one strong and one weak effect at a third, noise at a fourth."""
    rng = np.random.default_rng(seed)
    left, right, noise = rng.normal(size=(3, count))
    both = np.tanh(left) + np.tanh(right) + 0.4 * rng.normal(size=count)
    return {
        "west": pd.DataFrame({"left": left}),
        "east": pd.DataFrame({"right": right}),
        "clinic": pd.DataFrame({"both": both}),
        "lab": pd.DataFrame({"noise": noise}),
    }


# -- the game of one target party, against slow and obvious versions ---------------------------------------------------


def a_game(records=24, seed=3):
    """Decoders of all kinds of variables, and features of three parties; one has none."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "number": rng.normal(size=records), "flag": np.arange(records) % 2, "count": rng.poisson(2, records),
        "town": rng.choice(["Bern", "Chur", "Thun"], records),
    })  # fmt: skip
    table.loc[5, "number"] = np.nan
    columns = prepare_columns(table, missing="impute")
    decoders = Decoders(columns.variables, 2, rng=rng)
    own, first, second = rng.normal(size=(3, records, 8))
    apart = {"first": first, "second": second, "idle": np.zeros_like(own)}
    return decoders, HeldOut(own, apart, columns.target, columns.observed)


def slow_worth(decoders, seen, present):
    """Record by record, and for each every other record in turn: nothing but the definition."""
    records = len(seen.target)
    total = 0.0
    for i in range(records):
        likelihoods = []
        for m in range(records):
            if m != i:
                z = seen.own[i].copy()
                for party, features in seen.apart.items():
                    z += features[i if party in present else m]
                losses = decoders.losses(z[None], seen.target[i : i + 1], seen.observed[i : i + 1])
                likelihoods.append(np.exp(-losses[0]))
        total += np.log(np.mean(likelihoods, axis=0)).sum()
    return total / records


@pytest.mark.parametrize(
    "present", [(), ("first",), ("second", "idle"), ("first", "second"), ("first", "second", "idle")]
)
def test_a_coalition_is_worth_the_likelihood_without_the_others(present):
    decoders, seen = a_game()
    assert worth(decoders, seen, frozenset(present)) == pytest.approx(slow_worth(decoders, seen, present), rel=1e-12)


def test_what_a_party_brings_is_what_it_adds_on_average_over_all_orders():
    decoders, seen = a_game()
    added = dict.fromkeys(seen.apart, 0.0)
    orders = list(permutations(seen.apart))
    for order in orders:
        for place, party in enumerate(order):
            with_it, without = (slow_worth(decoders, seen, order[:end]) for end in (place + 1, place))
            added[party] += (with_it - without) / len(orders)
    assert brought(decoders, seen, seed=0) == pytest.approx(added, abs=1e-12)


def test_many_records_lend_features_from_near_and_far():
    """With more records than draws some are asked; the likelihood must stay about that of asking all."""
    decoders, seen = a_game(records=120)
    assert worth(decoders, seen, frozenset()) == pytest.approx(slow_worth(decoders, seen, ()), rel=0.01)


def test_nobody_has_a_share_of_nothing():
    decoders, seen = a_game()
    idle = replace(seen, apart={"idle": seen.apart["idle"], "too": seen.apart["idle"]})
    assert brought(decoders, idle, seed=0) == {"idle": 0.0, "too": 0.0}
    assert shares({"a": 0.0, "b": 0.0}) == shares({"a": 0.1, "b": -0.2}) == {}
    assert shares({"a": 0.3, "b": -0.1}) == pytest.approx({"a": 1.5, "b": -0.5})


# -- shares of a whole discovery ---------------------------------------------------------------------------------------


def test_parties_alike_get_alike_and_noise_gets_nothing():
    """The effect's own party brings nothing to others: causes are paid for, not an interesting variable."""
    graph = find(people(), ("left", "both"), ("right", "both"), evidence=0.1)
    found = graph.contributions
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["west"] == pytest.approx(found["east"], abs=0.1)
    assert found["west"] + found["east"] == pytest.approx(1.0, abs=0.02)
    assert abs(found["lab"]) < 0.02 and abs(found["clinic"]) < 0.02
    assert any(
        note.startswith("contributions are shares of") and "100 held-out records" in note for note in graph.notes
    )


def test_a_null_party_with_edges_gets_next_to_nothing():
    """Somebody could insist on an edge from noise; only what it brings on records it never saw is paid."""
    edges = [("left", "both"), ("right", "both"), ("noise", "both")]
    assert abs(find(people(), *edges, evidence=0.1).contributions["lab"]) < 0.03


def test_who_causes_more_gets_more():
    tables = people()
    rng = np.random.default_rng(9)
    left, right = tables["west"]["left"], tables["east"]["right"]
    tables["clinic"]["both"] = 2 * np.tanh(left) + 0.5 * right + 0.4 * rng.normal(size=len(left))
    found = find(tables, ("left", "both"), ("right", "both"), evidence=0.1).contributions
    assert found["west"] > 2 * found["east"] > 0.2


def test_one_party_or_no_held_out_records_make_no_shares():
    one = {"alone": pd.concat(people(200).values(), axis=1)}
    assert discover_tables(one, settings(epochs=5, refit_epochs=2), progress=False).contributions == {}
    assert find(people(200), epochs=5, refit_epochs=2, held_out=0.0).contributions == {}


def test_without_an_edge_between_parties_nobody_has_a_share():
    rng = np.random.default_rng(0)
    tables = {name: pd.DataFrame({name * 2: rng.normal(size=200)}) for name in "ab"}
    graph = find(tables, evidence=0.5, epochs=10, refit_epochs=5)
    assert graph.contributions == {}
    assert any(note.endswith("no shares") for note in graph.notes)


def test_too_few_held_out_records_are_refused():
    with pytest.raises(DataError, match="at least 20 must judge"):
        find(people(200), held_out=0.05)


def test_held_out_records_count_for_enough_records():
    """Twenty columns cannot be learned from fifteen records, however many are held out."""
    rng = np.random.default_rng(0)
    names = [[f"{party}{number}" for number in range(20)] for party in "ab"]
    tables = {party[0][0]: pd.DataFrame(rng.normal(size=(60, 20)), columns=party) for party in names}
    with pytest.raises(DataError, match="30 common records for 40 columns"):
        find(tables, held_out=0.5)


# -- what is held out is held out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("held_out", [0.0, 0.3])
def test_every_record_is_either_learned_from_or_held_out(held_out):
    blocks = Blocks(100, settings(held_out=held_out, batch_size=40), seed=5)
    rows = np.concatenate(blocks.rows)
    held = np.concatenate([[], *blocks.held_out])
    assert sorted([*rows, *held]) == list(range(100))
    assert (len(held), blocks.learned) == (round(100 * held_out), 100 - round(100 * held_out))
    assert {blocks.at(exchange) for exchange in range(40)} == set(range(len(blocks.rows)))


def lives(tables, chosen, spoil=None, curious=None):
    """Run all roles; return the coordinator's graph. `spoil` may change a party's prepared columns."""
    agreed = DiscoveryAgreement("local", tuple(tables), "coordinator", chosen, seed=0)

    def live(channel, party):
        columns = prepare_columns(tables[party], where=party)
        columns = spoil(columns, agreed) if spoil else columns
        watching = curious if party == "party1" else None
        return Party(channel, agreed, PartySeat(party, columns, b"secret", curious=watching)).run()

    roles = {party: partial(live, party=party) for party in tables}
    roles["coordinator"] = lambda channel: Coordinator(channel, agreed, CoordinatorSeat()).run()
    return run_together(roles)["coordinator"]


def test_nothing_is_learned_from_held_out_records():
    """Whatever they hold, weights and edges are the same to the last bit; only shares differ."""

    def spoil(columns, agreed):
        held = np.concatenate(Blocks(len(columns.plain), agreed.settings, agreed.seed).held_out)
        plain, target = columns.plain.copy(), columns.target.copy()
        plain[held] = target[held] = np.random.default_rng(8).normal(size=plain[held].shape)
        return replace(columns, plain=plain, target=target)

    tables, chosen = divided(chain(), "ac", "bde"), settings(**{**SHORT, "epochs": 30, "refit_epochs": 15})
    whole, spoiled = lives(tables, chosen), lives(tables, chosen, spoil)
    pd.testing.assert_frame_equal(whole.strengths, spoiled.strengths, check_exact=True)
    assert {} != whole.contributions != spoiled.contributions


# -- protection, messages, files ---------------------------------------------------------------------------------------


class Watching(Curious):
    def __init__(self):
        self.seen = []

    def saw_apart(self, rows, apart):
        self.seen.append((rows, apart))


def test_encrypted_shares_are_the_plain_ones_but_for_rounding():
    """And what a party is shown of held-out records is what `held_out` says: each other's features apart, once."""
    tables = divided(chain(), "ab", "c", "de")
    watching = [Watching(), Watching()]
    plain, secure = (
        lives(tables, settings(**SHORT, secure=secure), curious=watcher)
        for secure, watcher in zip((False, True), watching, strict=True)
    )
    assert plain.contributions
    assert secure.contributions == pytest.approx(plain.contributions, abs=1e-4)
    (rows, apart), (also_rows, also_apart) = (seen for watcher in watching for seen in watcher.seen)
    assert set(apart) == {"party0", "party2"} and len(rows) == 48
    np.testing.assert_array_equal(rows, also_rows)
    for peer in apart:
        assert apart[peer].any()
        np.testing.assert_allclose(also_apart[peer], apart[peer], atol=2.0**-12)
    warnings = [any("apart, for held-out records" in note for note in graph.notes) for graph in (plain, secure)]
    assert warnings == [False, True]


def test_features_shown_apart_carry_all_the_agreed_noise():
    """Shared out as in a sum, every party's part would hide that party less than was agreed."""
    tables, watching = divided(chain(), "ab", "c", "de"), Watching()
    lives(tables, settings(**{**SHORT, "epochs": 1, "refit_epochs": 0}, feature_noise=100.0), curious=watching)
    ((_, apart),) = watching.seen
    assert [np.std(features) for features in apart.values()] == pytest.approx([100.0] * 2, rel=0.2)


class Crash(Progress):
    def advance(self, step, **_):
        if step == 6:
            raise KeyboardInterrupt


def test_a_resumed_discovery_shares_alike(tmp_path):
    tables, chosen = divided(chain(), "ab", "c", "de"), settings(**SHORT, checkpoint_every=2)
    undisturbed = discover_tables(tables, chosen, progress=False)
    with pytest.raises(KeyboardInterrupt):
        discover_tables(tables, chosen, run=tmp_path, progress=Crash())
    resumed = discover_tables(tables, chosen, run=tmp_path, resume=True, progress=False)
    assert resumed.contributions == undisturbed.contributions != {}


@pytest.mark.parametrize("held_out", [0.0, 0.2])
def test_the_ledger_tells_who_told_what(tmp_path, held_out):
    """One number for each other party, to the coordinator alone; nothing where nothing was agreed on."""
    chosen = settings(**{**SHORT, "held_out": held_out}, reveal="own")
    graph = discover_tables(divided(chain(), "ab", "c", "de"), chosen, run=tmp_path, progress=False)
    for party in graph.parties:
        run = Run.open(tmp_path / party)
        lines = [json.loads(line) for line in (run.path / "ledger.jsonl").read_text().splitlines()]
        told = [line for line in lines if line["kind"] == "contribution"]
        assert [line["to"] for line in told] == (["coordinator"] if held_out else [])
        own = CausalGraph.load(run.path / "graph.json")
        assert (own.reveal, own.contributions) == (party, graph.contributions)
    assert bool(graph.contributions) == bool(held_out)


def example(contributions=None) -> CausalGraph:
    names = ["age", "bmi", "glucose"]
    strength = pd.DataFrame([[0, 0, 0.5], [0, 0, 0], [0, 0, 0]], names, names)
    return CausalGraph(
        strength, dict(zip(names, ["clinic", "clinic", "lab"], strict=True)), contributions=contributions
    )


def test_shares_are_saved_shown_and_kept_by_every_copy(tmp_path):
    graph = example({"lab": 0.3, "clinic": 0.7})
    graph.save(tmp_path / "g.json")
    copies = [CausalGraph.load(tmp_path / "g.json"), graph.of("lab"), graph.with_notes(["one"])]
    copies.append(with_confidence(lambda seed, rows: graph, 10, repeats=1))
    assert [copy.contributions for copy in copies] == [{"clinic": 0.7, "lab": 0.3}] * 4
    assert "clinic 70.0%" in repr(graph) and "contributions" not in repr(example())


def test_a_file_from_before_there_were_shares_is_read(tmp_path):
    example().save(tmp_path / "g.json")
    assert "contributions" not in json.loads((tmp_path / "g.json").read_text())
    assert CausalGraph.load(tmp_path / "g.json").contributions == {}


@pytest.mark.parametrize("wrong", [{"clinic": 1.0}, {"clinic": 0.5, "lab": 0.6}, {"clinic": 0.5, "town": 0.5}])
def test_shares_that_do_not_fit_are_refused(tmp_path, wrong):
    with pytest.raises(ConfigError, match="contributions"):
        example(wrong)
    example({"clinic": 0.7, "lab": 0.3}).save(tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_text())
    (tmp_path / "g.json").write_text(json.dumps({**document, "contributions": wrong}))
    with pytest.raises(RunError, match="no whole causal graph"):
        CausalGraph.load(tmp_path / "g.json")


def test_the_command_tells_people_and_machines(tmp_path):
    village = Village(tmp_path, 300, secure=False, held_out=0.2, epochs=30, refit_epochs=10)
    words = ["discover", *village.files(*COLUMNS), "--run", str(tmp_path / "sim")]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert "contributions to the variables of other parties:" in shown.stdout, shown.stderr
    told = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "again"), "--json"])
    result = json.loads(told.stdout.splitlines()[-1])
    assert result["contributions"] == CausalGraph.load(tmp_path / "sim" / "hub" / "graph.json").contributions
    assert set(result["contributions"]) == set(COLUMNS)
