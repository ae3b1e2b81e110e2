"""Discovery between real processes under mutual TLS: if these fail, what a notebook finds is not found together.

Over a network every party has a secret of its own; here all have that of a simulation, so that both can be compared.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner
from village import COLUMNS, COORDINATOR, Village

from colonnade.cli import app
from colonnade.discover.graph import CausalGraph
from colonnade.run import Run

pytestmark = pytest.mark.slow


def in_one_process(village: Village) -> CausalGraph:
    out = village.folder / "graph.json"
    words = ["discover", *village.files(*COLUMNS), "--run", str(village.folder / "sim"), "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    return CausalGraph.load(out)


def over_network(village: Village, *arguments: str) -> None:
    village.start_all(*arguments)
    assert set(village.wait().values()) == {0}, [village.log(party) for party in village.parties]


def assert_same(ours: CausalGraph, other: CausalGraph) -> None:
    """Edges are the same; worths nearly, since norms of 16 bits in units of 16 are squared."""
    assert (ours.adjacency.to_numpy() > 0).tolist() == (other.adjacency.to_numpy() > 0).tolist()
    np.testing.assert_allclose(ours.strengths, other.strengths, rtol=1e-3, atol=5e-4)


def test_three_parties_and_a_coordinator_find_the_graph_of_one_process(tmp_path):
    """Encrypted, with knowledge in public and in private, and everybody shown no more than agreed."""
    village = Village(tmp_path, reveal="own")
    village.federation["knowledge"] = {"roots": ["age"]}
    village.own["lab"]["knowledge"] = {"required": [["pressure", "glucose"]]}
    village.write_files()
    over_network(village)
    whole = village.graph(COORDINATOR)
    assert_same(whole, in_one_process(village))
    assert ("pressure", "glucose") in village.edges(COORDINATOR)
    for party in COLUMNS:
        shown = village.graph(party)
        assert shown.reveal == party
        assert shown.adjacency.equals(whole.of(party).adjacency)
        assert village.log(party).startswith("CausalGraph: 5 variables")
    for party in village.parties:
        run = Run.open(village.run_folder(party))
        run.verify_ledger()
        assert (run.path / "graph.dot").read_text().startswith("digraph")
    sent = [json.loads(line) for line in (village.run_folder("lab") / "ledger.jsonl").read_text().splitlines()]
    assert {"hello", "strength", "secure.secret", "secure.share"} <= {line["kind"] for line in sent}
    assert not {"feature", "gradient"} & {line["kind"] for line in sent}, "nothing leaves in the clear"


def test_records_that_differ_between_parties_and_missing_values_are_no_hindrance(tmp_path):
    village = Village(tmp_path, count=200, secure=False, missing="impute")
    table = village.table.copy()
    table.loc[table.index[::9], "glucose"] = np.nan
    for place, (party, columns) in enumerate(COLUMNS.items()):
        own = table[columns].drop(index=table.index[place::8]).sample(frac=1, random_state=place)
        own.to_csv(tmp_path / f"{party}.csv", index_label="id")
    over_network(village)
    assert_same(village.graph("clinic"), in_one_process(village))
    pd.testing.assert_frame_equal(village.graph("clinic").adjacency, village.graph(COORDINATOR).adjacency)


def test_different_files_are_noticed_before_anything_is_learned(tmp_path):
    """Also where only the knowledge differs: a party would not know what was ruled out in its name."""
    village = Village(tmp_path, secure=False)
    for number, change in enumerate(({"knowledge": {"roots": ["age"]}}, {"discovery": {"secure": False}})):
        village.write_yaml("other.yaml", {**village.federation, **change})
        for party in village.parties:
            file = "other.yaml" if party == "lab" else "federation.yaml"
            village.start(party, "--run", f"attempt{number}", federation=file)
        codes = village.wait()
        assert codes == {**dict.fromkeys(COLUMNS, 6), COORDINATOR: 3}
        assert "error: lab: has agreed on something else" in village.log(COORDINATOR).splitlines()[-1]
        assert "agreed on something else" in village.log("insurer").splitlines()[-1]


def test_a_name_that_nobody_has_is_told_to_everybody_with_the_file_it_stands_in(tmp_path):
    """People would search four files for it. Where the coordinator keeps that file is told to nobody else."""
    village = Village(tmp_path, secure=False)
    village.federation["knowledge"] = {"roots": ["agee"]}
    village.write_files()
    village.start_all()
    assert village.wait() == {**dict.fromkeys(COLUMNS, 6), COORDINATOR: 3}
    mistake = "federation.yaml: knowledge: unknown variable 'agee' (did you mean 'age'?)"
    assert village.log(COORDINATOR).splitlines()[-1] == f"error: {mistake}"
    for party in COLUMNS:
        assert f"error: {COORDINATOR}: stopped: {mistake}" in village.log(party).splitlines()[-1]


def test_a_party_that_knows_a_name_that_nobody_has_is_sent_to_its_own_file(tmp_path):
    """Others learn who is wrong and no name: what a party knows is its own business."""
    village = Village(tmp_path, secure=False)
    village.own["lab"]["knowledge"] = {"forbidden": [["agee", "glucose"]]}
    village.write_files()
    village.start_all()
    assert village.wait() == {**dict.fromkeys(COLUMNS, 6), COORDINATOR: 3}
    for party in village.parties:
        line = village.log(party).splitlines()[-1]
        assert "lab: knows something of its edges that cannot be used" in line and "agee" not in line
        assert "the knowledge in its own file" in line
