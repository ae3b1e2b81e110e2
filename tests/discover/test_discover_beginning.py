"""If these fail, a run that was stopped goes on with other records or other knowledge, and nobody is told."""

import json

import numpy as np
import pytest
from discovery_parts import SHORT, chain, divided
from test_discover_resume import settings, stop

from colonnade.discover.beginning import FILE
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError
from colonnade.federation.discovery import DiscoverySettings

RECORDS = r"party1: its records are not those that the run began with \(put it back as it was, or start a new run\)"


def resumed(tables, folder, **options):
    return discover_tables(tables, settings(), run=folder, resume=True, progress=False, **options)


@pytest.fixture
def stopped(tmp_path):
    tables = divided(chain(), "ab", "cde")
    stop(tables, settings(), tmp_path, 30)
    return tables, tmp_path


def test_records_in_another_order_are_other_records(stopped):
    tables, folder = stopped
    tables["party1"] = tables["party1"].iloc[::-1].reset_index(drop=True)
    with pytest.raises(ConfigError, match=RECORDS):
        resumed(tables, folder)


@pytest.mark.parametrize("count", [200, 300])
def test_fewer_or_more_records_are_refused_in_one_line(stopped, count):
    _, folder = stopped
    with pytest.raises(ConfigError, match="its records are not those"):
        resumed(divided(chain(count), "ab", "cde"), folder)


def test_what_a_party_knows_may_not_change_on_the_way(stopped):
    tables, folder = stopped
    with pytest.raises(ConfigError, match="party0: what it knows is not what it knew when the run began"):
        resumed(tables, folder, knowledge={"party0": {"forbidden": [("a", "b")]}})


def test_a_mistake_that_stopped_a_run_at_its_start_can_be_corrected(tmp_path):
    """All would have to agree on another name, or be told to put the mistake back."""
    tables = divided(chain(), "ab", "cde")
    stop(tables, settings(), tmp_path, 0)
    tables["party1"] = tables["party1"].assign(c=tables["party1"]["c"] ** 2)
    known = {"party0": {"forbidden": [("a", "b")]}}
    graph = resumed(tables, tmp_path, knowledge=known)
    anew = discover_tables(tables, settings(), progress=False, knowledge=known)
    assert graph.adjacency.equals(anew.adjacency)


def test_what_has_not_changed_goes_on(stopped):
    tables, folder = stopped
    began = json.loads((folder / "party1" / FILE).read_text())
    assert set(began) == {"records", "knowledge"}
    same = {party: table.copy() for party, table in tables.items()}
    graph = resumed(same, folder)
    assert graph.adjacency.equals(discover_tables(tables, settings(), progress=False).adjacency)


def test_confidence_of_a_run_that_was_resumed_is_found_and_kept(stopped):
    tables, folder = stopped
    graph = resumed(tables, folder, confidence=2)
    assert graph.confidence is not None
    kept = CausalGraph.load(folder / "coordinator" / "graph.json")
    assert kept.confidence is not None and np.allclose(kept.confidence, graph.confidence)


def test_a_name_that_no_file_can_hold_is_refused_before_anything_is_learned():
    tables = divided(chain().rename(columns={"b": ""}), "ac", "de")
    tables["party0"] = chain().rename(columns={"b": "x\0y"})[["a", "x\0y"]]
    chosen = DiscoverySettings.model_validate({**SHORT, "epochs": 10**9})
    with pytest.raises(ConfigError, match="is no name of a variable"):
        discover_tables(tables, chosen, progress=False)
