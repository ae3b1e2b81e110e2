"""Models that several tests audit; none of them changes what it audits."""

from __future__ import annotations

import pytest
from audit_parts import picture_model, table_model


@pytest.fixture(scope="session")
def trained():
    """Three parties with columns, nobody defended."""
    return table_model()


@pytest.fixture(scope="session")
def noisy():
    """The same under noise."""
    return table_model({"name": "gaussian", "sigma": 0.5})


@pytest.fixture(scope="session")
def painted():
    """Two parties with halves of pictures, and one with labels."""
    return picture_model()
