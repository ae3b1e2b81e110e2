"""Soteria: scores that come from the bottom model's own Jacobian."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from colonnade.data.preparation import prepare_features
from colonnade.data.records import Records
from colonnade.defend import soteria
from colonnade.defend.registry import make_defense
from colonnade.learn.part import BottomPart, Part
from colonnade.nets import build_bottom


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slow_scores(bottom, x, h):
    """The definition: one Jacobian a record, one norm an entry."""
    bottom.eval()
    rows = []
    for record, values in zip(x, h, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda r: bottom(r[None])[0], record)
        norms = jacobian.reshape(values.numel(), -1).norm(dim=1)
        rows.append((norms / (values.flatten().abs() + 0.1)).view_as(values))
    return torch.stack(rows)


def map_bottom(width):
    """Convolutions, a normalisation whose statistics have moved, and a pooling."""
    first = build_bottom("resnet18", (3, 8, 8), cut=3, seed=0)
    bottom = nn.Sequential(*first, nn.MaxPool2d(2), nn.Conv2d(64, width, 3, padding=1))
    with torch.no_grad():
        nn.init.trunc_normal_(bottom[-1].weight, std=0.05, generator=torch.Generator().manual_seed(5))
        bottom(normal(9, 64, 3, 8, 8))
    return bottom


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_small_representations_are_scored_exactly(kind):
    """Other entries would be sent than the published rule sends."""
    if kind == "vectors":
        bottom, x = build_bottom("mlp", (7,), hidden=(20, 12, 4), cut=4, seed=0), normal(0, 6, 7)
    else:
        bottom, x = map_bottom(width=4), normal(0, 6, 3, 8, 8)
    defense = make_defense("soteria", rate=0.75)
    bottom = defense.extend(bottom, tuple(x.shape[1:]))
    bottom.train()
    h = bottom(x)
    assert h[0].numel() <= 256
    expected = slow_scores(bottom, x, h)
    bottom.train()
    assert torch.allclose(defense.scores(x, h, train=True), expected, rtol=1e-4, atol=1e-6)
    upload = defense.protect(x, h, train=True)
    entries = h[0].numel()
    for record in range(len(x)):
        order = expected[record].flatten().argsort()
        sent = h[record].flatten().clone()
        sent[order[: math.floor(0.75 * entries)]] = 0
        assert torch.equal(upload[record].flatten(), sent)


@pytest.mark.parametrize("train", [True, False])
def test_probes_rank_the_entries_as_the_exact_scores_do(train):
    """Wide representations would be pruned at random. Three seeds gave 0.93, 0.98 and 0.996 for 8, 32 and 128."""
    x = normal(0, 4, 3, 8, 8)
    bottom = map_bottom(width=32)
    h = bottom.eval()(x).detach()
    assert h[0].numel() > 256
    exact = slow_scores(bottom, x, h).detach()
    agreement = {}
    for probes in (8, 32, 128):
        defense = make_defense("soteria", probes=probes)
        defense.prepare(bottom, x)
        scores = defense.scores(x, h, train)
        pairs = zip(scores.flatten(1), exact.flatten(1), strict=True)
        agreement[probes] = sum(spearmanr(a, b).statistic for a, b in pairs) / len(x)
    assert agreement[8] < agreement[32] < agreement[128]
    assert agreement[32] > 0.9 and agreement[128] > 0.97


ELSEWHERE = """
import sys
from pathlib import Path
import numpy as np
import pandas as pd
from colonnade.data.records import Records
from colonnade.learn.part import Part
folder = Path(sys.argv[1])
images = np.load(folder / "records.npz")["images"]
uploads = Part.load(folder / "lab").bottom.upload(Records(pd.RangeIndex(len(images)), images=images))
np.savez(folder / "uploads.npz", uploads=uploads.numpy())
"""


def wide_part(rate=0.9):
    """A party's trained part, whose representation is too wide for exact scores."""
    images = np.random.default_rng(0).integers(0, 256, (12, 3, 8, 8), dtype=np.uint8)
    records = Records(pd.RangeIndex(12), images=images)
    recipe = {"family": "resnet18", "input_shape": [3, 8, 8], "cut": 3, "hidden": []}
    defense = make_defense("soteria", rate=rate, probes=4)
    network = defense.extend(build_bottom(**recipe, seed=0), (3, 8, 8))
    bottom = BottomPart(network, prepare_features(records), defense, recipe, "lab")
    return Part("lab", bottom), records


def test_predictions_of_a_record_are_always_the_same(tmp_path):
    """Whoever sees many uploads of a record would average its masks away; an audit would have to look at all of them.

    Also in other company, under another seed, after training steps in between, and in another process.
    """
    part, records = wide_part()
    first = part.bottom.upload(records)
    assert (first == 0).float().mean() > 0.85
    assert torch.equal(part.bottom.upload(records), first)
    part.bottom.defense.seed(5)
    x = part.bottom.features(records)
    part.bottom.defense.protect(x, part.bottom.network(x), train=True)
    assert torch.equal(part.bottom.upload(records), first)
    some = [7, 2, 9]
    # A batch of another size may be rounded elsewhere, and entries that score the same may change places.
    assert torch.isclose(part.bottom.upload(records.take(np.array(some))), first[some]).float().mean() > 0.999
    part.save(tmp_path / "lab")
    np.savez(tmp_path / "records.npz", images=records.images)
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], check=True)
    assert np.array_equal(np.load(tmp_path / "uploads.npz")["uploads"], first.numpy())


def test_training_draws_directions_anew():
    """An entry that the fixed ones misjudge would be misjudged in every step."""
    part, records = wide_part()
    x = part.bottom.features(records)
    h = part.bottom.network.eval()(x).detach()
    defense = part.bottom.defense
    one, other = (defense.scores(x, h, train=True) for _ in range(2))
    assert not torch.equal(one, other)
    defense.seed(0)
    again = defense.scores(x, h, train=True)
    defense.seed(0)
    assert torch.equal(defense.scores(x, h, train=True), again)


def test_how_many_records_pass_at_once_is_a_matter_of_time_alone(monkeypatch):
    part, records = wide_part()
    x = part.bottom.features(records)
    h = part.bottom.network.eval()(x).detach()
    scores = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    for numbers in (1, 10**9):
        monkeypatch.setattr(soteria, "_NUMBERS_AT_ONCE", numbers)
        part.bottom.defense.seed(0)
        scores.append(part.bottom.defense.scores(x, h, train=True))
    assert torch.allclose(*scores, rtol=1e-5)


def test_scoring_leaves_the_bottom_model_as_it_was():
    """Running statistics would move twice a batch, or the model would stay in the wrong mode."""
    x, bottom = normal(0, 4, 3, 8, 8), map_bottom(width=32)
    defense = make_defense("soteria", probes=2)
    defense.prepare(bottom, x)
    bottom.train()
    h = bottom(x)
    before = {name: value.clone() for name, value in bottom.state_dict().items()}
    defense.scores(x, h, train=True)
    assert bottom.training and all(part.training for part in bottom.modules())
    assert all(torch.equal(value, before[name]) for name, value in bottom.state_dict().items())
    assert all(parameter.grad is None for parameter in bottom.parameters())


def test_gradients_reach_only_what_was_sent():
    bottom, x = build_bottom("mlp", (7,), hidden=(20, 12, 4), cut=4, seed=0), normal(0, 6, 7)
    defense = make_defense("soteria", rate=0.5)
    defense.prepare(bottom, x)
    h = (bottom(x) + 1).detach().requires_grad_()
    upload = defense.protect(x, h, train=True)
    grad = normal(1, *h.shape)
    defense.backward(x, h, upload, grad)
    assert torch.equal(h.grad, torch.where(upload != 0, grad, 0.0))
    assert (upload == 0).sum(1).tolist() == [6] * 6
