"""If these fail, a party's file puts other columns into a discovery than its owner meant."""

import sys
from pathlib import Path

import pytest

from colonnade.discover.join import DiscoveryPlace

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
