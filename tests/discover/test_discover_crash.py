"""Stopped at any look: if these fail, a night's search is lost, or ends with another graph than it would have."""

import numpy as np
import pytest
from discovery_parts import chain, divided

from colonnade.discover.discover import discover_tables
from colonnade.federation.discovery import DiscoverySettings
from colonnade.progress import Progress

TABLES = divided(chain(90), "ac", "b", "de")


class Crash(Progress):
    """The power goes right after a look at the graph."""

    def __init__(self, look: int) -> None:
        self.look = look

    def advance(self, step, **_):
        if step == self.look:
            raise KeyboardInterrupt


def short(**settings) -> DiscoverySettings:
    chosen = {"epochs": 8, "refit_epochs": 4, "batch_size": 30, "validate_every": 3, "hidden": 3, "secure": False}
    return DiscoverySettings.model_validate(chosen | settings)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_search_that_stops_after_any_look_ends_with_the_same_graph(tmp_path, every):
    settings = short(checkpoint_every=every)
    undisturbed = discover_tables(TABLES, settings, progress=False)
    for look in range(1, 13):
        run = tmp_path / str(look)
        with pytest.raises(KeyboardInterrupt):
            discover_tables(TABLES, settings, run=run, progress=Crash(look))
        resumed = discover_tables(TABLES, settings, run=run, resume=True, progress=False)
        np.testing.assert_array_equal(resumed.strengths, undisturbed.strengths, err_msg=f"after look {look}")
        assert resumed.adjacency.equals(undisturbed.adjacency)


def test_a_search_that_stops_again_and_again_gets_there(tmp_path):
    settings = short(checkpoint_every=2)
    undisturbed = discover_tables(TABLES, settings, progress=False)
    for attempt, look in enumerate((1, 4, 3, 6, 9, 12)):
        with pytest.raises(KeyboardInterrupt):
            discover_tables(TABLES, settings, run=tmp_path / "r", resume=attempt > 0, progress=Crash(look))
    resumed = discover_tables(TABLES, settings, run=tmp_path / "r", resume=True, progress=False)
    np.testing.assert_array_equal(resumed.strengths, undisturbed.strengths)


def test_encrypted_searches_go_on_too(tmp_path):
    """Fragments come from the checkpoint, keys and masks are new; only the last of 36 bits is rounded by chance."""
    settings = short(secure=True, checkpoint_every=1, epochs=3, refit_epochs=2, batch_size=90, validate_every=1)
    undisturbed = discover_tables(TABLES, settings, progress=False)
    for attempt, look in enumerate((2, 4)):
        with pytest.raises(KeyboardInterrupt):
            discover_tables(TABLES, settings, run=tmp_path / "r", resume=attempt > 0, progress=Crash(look))
    resumed = discover_tables(TABLES, settings, run=tmp_path / "r", resume=True, progress=False)
    np.testing.assert_allclose(resumed.strengths, undisturbed.strengths, atol=1e-5)


def test_another_search_is_not_resumed(tmp_path):
    """Weights that were learned under other settings, or with other knowledge, would be mixed in."""
    from colonnade.errors import RunError
    from colonnade.federation.knowledge import Knowledge

    with pytest.raises(KeyboardInterrupt):
        discover_tables(TABLES, short(checkpoint_every=1), run=tmp_path / "r", progress=Crash(3))
    for other in ({"seed": 1}, {"knowledge": Knowledge(roots=("a",))}):
        with pytest.raises(RunError, match="another agreement"):
            discover_tables(TABLES, short(checkpoint_every=1), run=tmp_path / "r", resume=True, progress=False, **other)
