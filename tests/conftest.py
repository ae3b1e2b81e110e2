"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# An example may take its time: other tests run beside it, on the same cores.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# They hold no doctests, and a second file of one name can't be collected as a module beside the first.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


ALONE = ("tests/end_to_end/", "tests/wire/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders, and of the page that starts a cluster."""
    for item in items:
        if item.nodeid.startswith(ALONE) or "ray-cluster" in item.nodeid:
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data sets (COLONNADE_DATA, or `../shared/data` beside the repository), or a skip."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("COLONNADE_DATA") or beside)
    if not folder.is_dir():
        pytest.skip("real data sets are not here: set COLONNADE_DATA to their folder")
    return folder
