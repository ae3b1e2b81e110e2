"""If these fail, a party's file puts other columns into a discovery than its owner meant."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from colonnade.discover.join import DiscoveryPlace, _reporter
from colonnade.errors import DataError
from colonnade.progress import Progress
from colonnade.wire.message import Message

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
from village import COLUMNS, Village


@pytest.fixture
def village(tmp_path):
    return Village(tmp_path, secure=False)


def columns_of(village, party):
    village.write_files()
    place = DiscoveryPlace.read(village.folder / "federation.yaml", village.folder / f"{party}.yaml")
    return list(place.table().columns)


def test_sensitive_columns_stay_at_home(village):
    """Whatever takes part, others can reconstruct: `sensitive` says that they must not."""
    *others, hidden = COLUMNS["insurer"]
    village.own["insurer"]["sensitive"] = [hidden]
    assert columns_of(village, "insurer") == others


def test_a_sensitive_column_that_is_listed_takes_part(village):
    village.own["insurer"]["sensitive"] = [COLUMNS["insurer"][-1]]
    village.own["insurer"]["data"]["columns"] = list(COLUMNS["insurer"])
    assert columns_of(village, "insurer") == list(COLUMNS["insurer"])


@pytest.mark.parametrize("listed", [None, ["age"]], ids=["all", "listed"])
def test_a_label_that_is_not_there_is_told(village, listed):
    """The graph would lack the one column that people ask about, and nobody would be told."""
    village.federation |= {"active": "clinic", "label": "presure"}
    village.own["clinic"]["data"]["columns"] = listed
    with pytest.raises(DataError, match=r"clinic\.csv: no label column 'presure' \(did you mean 'pressure'\?\)"):
        columns_of(village, "clinic")
    assert columns_of(village, "lab") == COLUMNS["lab"]


class Told(Progress):
    def __init__(self):
        self.steps = []

    def advance(self, step, **values):
        self.steps.append(step)


def test_a_party_counts_the_looks_that_the_coordinator_counts(village):
    """Weighing edges is no look, and a resumed run does not begin at the first."""
    told = Told()
    report = _reporter(told, SimpleNamespace(sent_bytes=0))
    for number, (look, losses) in enumerate([(3, [0.5]), (4, [0.5]), (5, []), (5, [0.4])]):
        report("hub", Message("run", "clinic", "strength", number, meta={"look": look, "losses": losses}))
    assert told.steps == [3, 4, 5]
