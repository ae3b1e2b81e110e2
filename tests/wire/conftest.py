"""Real parties on real sockets for the wire's tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wire_parts import Kits


@pytest.fixture(scope="session")
def kits(tmp_path_factory):
    """One certificate authority and a kit for each of five parties."""
    return Kits(tmp_path_factory.mktemp("kits"))
