"""Top-k compression: pruning by another name."""

import pytest
import torch

import colonnade.defend.prune
import colonnade.defend.top_k  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kept", "entries"), [(0.5, 50), (0.07, 7), (0.051, 6), (0.0, 1), (1.0, 100)])
def test_the_largest_entries_are_kept(kept, entries):
    """The share that a table names would not be the share that was sent."""
    h = normal(0, 3, 100)
    upload = make_defense("top_k", kept=kept).protect(h, h, train=True)
    for row, sent in zip(h, upload, strict=True):
        largest = sorted(range(100), key=lambda j: -abs(row[j].item()))[:entries]
        assert sorted(sent.nonzero()[:, 0].tolist()) == sorted(largest)
        assert torch.equal(sent[largest], row[largest])


def test_it_equals_pruning_at_the_rest():
    h = normal(0, 3, 4, 5, 5)
    kept = make_defense("top_k", kept=0.1).protect(h, h, train=False)
    assert torch.equal(kept, make_defense("prune", rate=0.9).protect(h, h, train=False))
    assert torch.equal(make_defense("top_k", kept=0.1).operator()(h), kept)
