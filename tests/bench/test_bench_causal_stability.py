"""If these fail, we say of a graph how well it repeats without having found it again."""

import numpy as np
import pandas as pd

from colonnade.bench.causal import sets
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.stability import _DISTURBANCES, disturbed
from colonnade.bench.registry import BENCHES
from colonnade.progress import Progress


def test_a_disturbance_is_as_large_as_it_says_in_every_column():
    data = sets.fresh(Design(5, 8), 3)
    change = (disturbed(data, 1e-3).frame - data.frame) / data.frame.std()
    np.testing.assert_allclose(change.std(), 1e-3, rtol=0.15)
    pd.testing.assert_frame_equal(disturbed(data, 0.0).frame, data.frame)


def test_every_set_is_searched_again_disturbed_and_encrypted():
    means, rows = np.array_split(BENCHES["vfedcd-stability"]("smoke", Progress()), 2)
    asked = [(row["secure"], row["disturbance"]) for row in rows]
    assert asked == [*((False, each) for each in _DISTURBANCES), (True, 0.0)]
    assert rows[0]["changed_edges"] == 0
    assert [mean["same_graph"] for mean in means] == [row["changed_edges"] == 0 for row in rows]
    for row in rows[1:]:
        assert abs(row["found_edges"] - rows[0]["found_edges"]) <= row["changed_edges"]
