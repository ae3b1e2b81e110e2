"""If these fail, an encrypted discovery that was stopped has to start anew, or goes on as another one."""

import json

import pytest
from discovery_parts import SHORT, assert_same_but_for_rounding, chain, divided

from colonnade.checkpoint import Checkpoints
from colonnade.discover.curious import Curious
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError, RunError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.run import Run


class PowerCutError(Exception):
    pass


class PowerCut(Curious):
    def __init__(self, exchange):
        self.exchange = exchange

    def saw(self, step, rows, features, apart):
        if step == self.exchange:
            raise PowerCutError


def settings(**changes):
    short = {"epochs": 10, "checkpoint_every": 2, "validate_every": 3}
    return DiscoverySettings.model_validate({**SHORT, **short, **changes})


def stop(tables, chosen, folder, exchange):
    cut = {next(iter(tables)): PowerCut(exchange)}
    with pytest.raises(PowerCutError):
        discover_tables(tables, chosen, run=folder, progress=False, curious=cut)


@pytest.mark.parametrize("exchange", [14, 45], ids=["search", "refit"])
def test_a_resumed_encrypted_discovery_finds_the_same_graph(tmp_path, exchange):
    tables, chosen = divided(chain(), "a", "bc", "de"), settings(secure=True)
    whole = discover_tables(tables, chosen, progress=False)
    stop(tables, chosen, tmp_path, exchange)
    resumed = discover_tables(tables, chosen, run=tmp_path, resume=True, progress=False)
    assert_same_but_for_rounding(resumed, whole)
    assert ((resumed.adjacency > 0) == (whole.adjacency > 0)).all(axis=None)


def test_other_settings_do_not_resume_a_run(tmp_path):
    tables = divided(chain(), "ab", "cde")
    stop(tables, settings(), tmp_path, 30)
    with pytest.raises(RunError, match="belongs to another agreement"):
        discover_tables(tables, settings(learning_rate=0.1), run=tmp_path, resume=True, progress=False)


def test_a_resume_needs_a_folder():
    with pytest.raises(ConfigError, match="nothing to resume from"):
        discover_tables(divided(chain(), "ab", "cde"), settings(), resume=True, progress=False)


def test_everybody_keeps_a_graph_and_a_ledger(tmp_path):
    graph = discover_tables(divided(chain(), "ab", "cde"), settings(reveal="own"), run=tmp_path, progress=False)
    for name in ("party0", "party1", "coordinator"):
        run = Run.open(tmp_path / name)
        run.verify_ledger()
        assert run.status == "finished"
    assert CausalGraph.load(tmp_path / "coordinator" / "graph.json").adjacency.equals(graph.adjacency)
    own = CausalGraph.load(tmp_path / "party0" / "graph.json")
    assert own.reveal == "party0"
    assert (own.adjacency.loc[["c", "d", "e"], ["c", "d", "e"]] == 0).all(axis=None)


def test_a_result_says_which_bytes_are_those_of_all_attempts(tmp_path):
    """Two numbers of one name, of which one is smaller: whoever reports it tells too little of what was sent."""
    tables = divided(chain(), "ab", "cde")
    stop(tables, settings(), tmp_path, 30)
    discover_tables(tables, settings(), run=tmp_path, resume=True, progress=False)
    for name in ("party0", "party1", "coordinator"):
        ending = json.loads((tmp_path / name / "result.json").read_text())
        last = ending["result"]["last_attempt"]
        assert not {"sent_bytes", "received_bytes", "seconds"} & ending["result"].keys()
        assert ending["sent_bytes"] == Run.open(tmp_path / name).ledger.sent_bytes > last["sent_bytes"] > 0
        assert last["received_bytes"] > 0
        assert ("forward" in last["seconds"]) == (name != "coordinator")


def answered(folder):
    kept = Checkpoints(Run.open(folder / "party0").checkpoints)
    state, _ = kept.load(kept.steps()[-1])
    return float(state["exchange/answered/party1"])


def test_products_before_a_stop_count_too(tmp_path):
    """Distances add up: whoever stops and resumes often would be told that more is hidden than is."""
    tables, chosen = divided(chain(), "ab", "cde"), settings(secure=True)
    discover_tables(tables, chosen, run=tmp_path / "whole", progress=False)
    stop(tables, chosen, tmp_path / "stopped", exchange=21)
    assert 0 < answered(tmp_path / "stopped") < answered(tmp_path / "whole")
    resumed = discover_tables(tables, chosen, run=tmp_path / "stopped", resume=True, progress=False)
    assert answered(tmp_path / "stopped") == pytest.approx(answered(tmp_path / "whole"))
    assert any("bits leave out what was done twice" in note for note in resumed.notes)
    assert any("fragments and gradients" in note and "columns rest on ring-LWE" in note for note in resumed.notes)
