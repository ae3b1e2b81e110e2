"""Data with a true causal graph, read from tiny files in the published formats."""

from __future__ import annotations

import numpy as np
import pytest
from datasets_published import write_text

from colonnade.data.datasets import load_dataset
from colonnade.data.datasets.causal import ANTIBODIES, PROTEINS
from colonnade.errors import ConfigError, DataError

VALUES = np.arange(22.0).reshape(2, 11)


def _text(names, mark):
    rows = [mark.join(names), *(mark.join(str(value) for value in row) for row in VALUES)]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sachs.data.txt", _text(PROTEINS, "\t")),
        ("sachs.csv", _text(ANTIBODIES, ",")),
        ("sachs_obs_853x11.csv", _text(PROTEINS, ",")),
    ],
)
def test_sachs_texts_with_either_set_of_names(tmp_path, file, content):
    write_text(tmp_path / file, content)
    loaded = load_dataset("sachs", tmp_path)
    assert tuple(loaded.table.columns) == PROTEINS
    np.testing.assert_array_equal(loaded.table, VALUES)
    assert loaded.graph.to_numpy().sum() == 17
    assert loaded.graph.loc["PKA", "Raf"] == 1
    assert loaded.graph.loc["Raf", "PKA"] == 0


def test_sachs_arrays(tmp_path):
    (tmp_path / "continuous").mkdir()
    np.save(tmp_path / "continuous/data1.npy", VALUES)
    np.testing.assert_array_equal(load_dataset("sachs", tmp_path).table, VALUES)


def test_sachs_with_another_graph(tmp_path):
    write_text(tmp_path / "sachs.csv", _text(PROTEINS, ","))
    write_text(tmp_path / "mine.csv", "cause,effect\nPIP2,PKC\n")
    graph = load_dataset("sachs", tmp_path, edges="mine.csv").graph
    assert graph.to_numpy().sum() == graph.loc["PIP2", "PKC"] == 1
    write_text(tmp_path / "mine.csv", "cause,effect\nPIP2,Insulin\n")
    with pytest.raises(DataError, match="'Insulin' is no column"):
        load_dataset("sachs", tmp_path, edges="mine.csv")


def test_sachs_errors_name_column_and_condition(tmp_path):
    write_text(tmp_path / "sachs.csv", "Raf,Mek\n1,2\n")
    with pytest.raises(DataError, match="no column Plcg"):
        load_dataset("sachs", tmp_path)
    with pytest.raises(ConfigError, match="no conditions 'some'"):
        load_dataset("sachs", tmp_path, conditions="some")
    with pytest.raises(DataError, match=r"no 'sachs_full_7466x11\.csv\.gz'"):
        load_dataset("sachs", tmp_path, conditions="all")


@pytest.mark.parametrize("home", ["", "syntren_p20"])
def test_syntren_arrays(tmp_path, home):
    folder = tmp_path / home
    folder.mkdir(exist_ok=True)
    edges = np.zeros((3, 3))
    edges[0, 2] = 1
    np.save(folder / "data4.npy", np.ones((5, 3)))
    np.save(folder / "DAG4.npy", edges)
    loaded = load_dataset("syntren", tmp_path, number=4)
    assert loaded.table.shape == (5, 3)
    assert loaded.graph.loc["G1", "G3"] == 1
    assert loaded.graph.to_numpy().sum() == 1


def test_syntren_with_a_graph_of_another_size_is_refused(tmp_path):
    np.save(tmp_path / "data1.npy", np.ones((5, 3)))
    np.save(tmp_path / "DAG1.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match="do not fit"):
        load_dataset("syntren", tmp_path)


def test_synthetic_noise_is_chosen_by_size_and_seed(tmp_path):
    arrays = {"d3_e2_s1_X": np.ones((4, 3)), "d3_e2_s1_B": np.eye(3, k=1)}
    np.savez(tmp_path / "synthetic_sdcd_anm.npz", **arrays)
    loaded = load_dataset("synthetic_anm", tmp_path, nodes=3, edges=2, seed=1)
    assert loaded.graph.loc["V1", "V2"] == 1
    with pytest.raises(DataError, match=r"no array 'd3_e2_s2_X' .*known: d3_e2_s1_B"):
        load_dataset("synthetic_anm", tmp_path, nodes=3, edges=2, seed=2)
