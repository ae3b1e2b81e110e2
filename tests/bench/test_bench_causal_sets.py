"""If these fail, causal benches score graphs against the wrong truth or split columns otherwise than they say."""

import gzip
import pickle

import numpy as np
import pytest

from colonnade.bench.causal import sets
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.networks import network_graph, read_network, sample_network
from colonnade.errors import ConfigError, DataError

RAIN = """network unknown { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable wet { type discrete [ 2 ] { yes, no }; }
probability ( rain ) { table 0.25, 0.75; }
probability ( wet | rain ) {
  (yes) 1.0, 0.0;
  (no) 0.1, 0.9;
}
"""


@pytest.fixture
def rain(tmp_path):
    path = tmp_path / "rain.bif.gz"
    path.write_bytes(gzip.compress(RAIN.encode()))
    return path


def test_columns_are_split_in_order_and_none_is_lost():
    assert list(map(len, sets.split_columns(list("abcdefghij"), 3).values())) == [4, 3, 3]
    parts = sets.split_columns([f"x{i}" for i in range(15)], (1, 1, 13))
    assert [name for part in parts.values() for name in part] == [f"x{i}" for i in range(15)]
    for wrong in ((5, 5), (0, 15), (16, -1)):
        with pytest.raises(ConfigError, match="cannot be split"):
            sets.split_columns([f"x{i}" for i in range(15)], wrong)


def test_a_set_tells_who_holds_what_and_travels_to_other_processes():
    data = sets.fresh(Design(5, 4, records=30), 1, parties=(1, 4))
    assert data.columns == "1/4" and data.party_of == ["party1"] + ["party2"] * 4
    assert data.federation().parties == ("party1", "party2")
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again.truth, data.truth)


def test_methods_see_unit_variance_unless_raw_is_asked_for():
    standardised, raw = (sets.fresh(Design(6, 8), 0, standardised=choice) for choice in (True, False))
    assert standardised.values.std(axis=0) == pytest.approx(1)
    np.testing.assert_array_equal(raw.values, raw.frame.to_numpy())
    np.testing.assert_array_equal(standardised.frame, raw.frame)


def test_a_network_is_drawn_by_its_chances(rain):
    nodes = read_network(rain)
    frame = sample_network(nodes, 20_000, 0)
    np.testing.assert_array_equal(network_graph(nodes), [[0, 1], [0, 0]])
    assert (frame["rain"] == "yes").mean() == pytest.approx(0.25, abs=0.02)
    assert (frame.loc[frame["rain"] == "yes", "wet"] == "yes").all()
    assert (frame.loc[frame["rain"] == "no", "wet"] == "yes").mean() == pytest.approx(0.1, abs=0.02)


def test_a_damaged_network_is_refused(rain, tmp_path):
    rain.write_bytes(gzip.compress(RAIN.replace("(no) 0.1, 0.9;", "").encode()))
    with pytest.raises(DataError, match="lacks the chances"):
        read_network(rain)
    (tmp_path / "text.bif.gz").write_text("no network")
    with pytest.raises(DataError, match="cannot be read"):
        read_network(tmp_path / "text.bif.gz")


def test_missing_data_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    with pytest.raises(ConfigError, match="COLONNADE_DATA"):
        sets.stored(10, 40, 0)


@pytest.mark.usefixtures("shared_data")
class TestRealData:
    def test_stored_sets_are_the_first_thousand_records(self):
        data = sets.stored(15, 60, 4)
        assert data.frame.shape == (1000, 15) and data.truth.sum() == 60 and data.columns == "5/5/5"
        with pytest.raises(DataError, match="d15_e61_s0"):
            sets.stored(15, 61, 0)

    def test_sachs_has_the_consensus_graph(self):
        data = sets.sachs()
        names = [name.lower() for name in data.frame.columns]
        assert data.frame.shape == (853, 11) and data.truth.sum() == 17
        assert data.truth[names.index("raf"), names.index("mek")]
        assert not data.truth[names.index("mek"), names.index("raf")]
        np.testing.assert_allclose(np.exp(data.frame), sets.sachs(log=False).frame)

    def test_syntren_has_ten_sets(self):
        edges = [int(sets.syntren(number).truth.sum()) for number in range(1, 11)]
        assert min(edges) == 19 and max(edges) == 34
        with pytest.raises(DataError, match="1 to 10"):
            sets.syntren(11)

    def test_impossible_zeros_of_pima_are_missing(self):
        frame = sets.pima().frame
        assert frame["Insulin"].isna().sum() == 374 and frame["Pregnancies"].isna().sum() == 0
        assert not sets.pima(zeros="kept").frame.isna().any(axis=None)

    @pytest.mark.parametrize(("name", "variables", "edges"), [("asia", 8, 8), ("alarm", 37, 46), ("hepar2", 70, 123)])
    def test_networks_have_their_known_sizes(self, name, variables, edges):
        data = sets.network(name, 50, 0)
        assert data.frame.shape == (50, variables) and data.truth.sum() == edges
