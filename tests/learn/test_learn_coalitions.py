"""If these fail, parties are weighed by a top model other than the one that they train."""

import pytest
import torch

from colonnade.federation.task import OptimizerSettings
from colonnade.learn import coalitions
from colonnade.learn.coalitions import coalition_outputs
from colonnade.learn.top import Top
from colonnade.nets import build_top


@pytest.mark.parametrize(
    ("family", "shapes", "join"),
    [
        ("mlp", [(3,), (5,), (4,)], "auto"),
        ("mnist_net", [(16, 4, 2), (16, 4, 2)], "width"),
        ("mnist_net", [(16, 4, 4), (16, 4, 4)], "features"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 20, 10**6])
def test_all_coalitions_at_once_answer_as_one_by_one(family, shapes, join, at_once, monkeypatch):
    monkeypatch.setattr(coalitions, "ROWS_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(0)
    top = build_top(family, shapes, 3, hidden=(6, 5, 4), join=join, seed=0).eval()
    rows = [torch.randn(7, *shape, generator=generator) for shape in shapes]
    means = [torch.randn(*shape, generator=generator) for shape in shapes]
    with torch.no_grad():
        found = coalition_outputs(top, rows, means)
        assert found.shape == (2 ** len(shapes), 7, 3)
        for number, outputs in enumerate(found):
            filled = [
                row if number >> party & 1 else mean.expand_as(row)
                for party, (row, mean) in enumerate(zip(rows, means, strict=True))
            ]
            torch.testing.assert_close(outputs, top(filled))


@pytest.mark.parametrize("regression", [False, True])
def test_losses_of_coalitions_are_those_without_the_others(regression):
    """Also where a party lacks records, and in either kind of task."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4,), (3,), (2,)]
    top = Top(
        build_top("mlp", shapes, 1 if regression else 3, hidden=(6, 5, 4), seed=0),
        regression=regression,
        settings=OptimizerSettings(),
        upload_shapes=shapes,
        device=torch.device("cpu"),
    )
    labels = torch.randn(9, generator=generator) if regression else torch.arange(9) % 3
    held = [None, torch.arange(9) % 2 == 0, None]
    uploads = [torch.randn(9 if mask is None else int(mask.sum()), *shape, generator=generator)
               for mask, shape in zip(held, shapes, strict=True)]  # fmt: skip
    top.learn(uploads, held, labels, rate=0.01)  # means of their own
    found = top.coalition_losses(uploads, held, labels)
    assert len(found) == 8
    for number, loss in enumerate(found):
        absent = [party for party in range(3) if not number >> party & 1]
        assert loss == pytest.approx(float(top.loss(top.without(absent, uploads, held), labels)), rel=1e-5)
