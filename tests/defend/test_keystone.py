"""Keystone: if these fail, uploads tell what the veil, the coin or the narrow channel are said to keep."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learned_parts import conv_bottom, copied, dense_bottom, images, one_step, seeded, set_up, vectors
from torch import nn

import colonnade as co
from colonnade.audit.rows import strength_of
from colonnade.data.records import Records
from colonnade.data.secrets import Secret
from colonnade.defend import Defense, Layered, make_defense
from colonnade.defend.keystone import Keystone, rounded, values_of
from colonnade.errors import ConfigError
from colonnade.federation.files import PartyFile
from colonnade.learn.augment import Shifts
from colonnade.learn.equilibrium import best_response_gaps
from colonnade.learn.join import defense_of
from colonnade.learn.part import BottomPart, Part
from colonnade.nets import build_bottom, build_top, upload_shape
from colonnade.nets.veil import Veil

VEIL = 4
HIDDEN = {"name": "nashcoder", "alpha": 0.5, "sigma": 0.5}
ROUNDING = 1e-3
"""Records are floats: what is added to them and taken away again leaves some millionths, and norms enlarge those."""


def exact(**arguments):
    """Without noise."""
    return Keystone(**{"veil": VEIL, "sigma": 0.0, **arguments})


def pictures_at_work(defense=None, seed=0, count=48, bottom=None):
    data, preparation = images(count)
    defense = defense or Keystone(VEIL)
    if defense.needs_secrets:
        defense.confide([Secret("sex", np.arange(count) % 2, 2)])
    return set_up(defense, bottom or conv_bottom(), data, preparation, seed=seed)


def veil_of(at_work):
    return next(module for module in at_work.network.modules() if isinstance(module, Veil))


def uploaded(at_work, train, seed=3, rows=None):
    """An upload with the coins and the noise of `seed`; statistics of the network stay as they are."""
    before = copied(at_work.network)
    at_work.defense.generator.manual_seed(seed)
    upload = at_work.upload(torch.arange(len(at_work.features)) if rows is None else rows, train)
    at_work.network.load_state_dict(before)
    return upload


# -- the veil ----------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda: Keystone(VEIL),
        lambda: Keystone(VEIL, sigma=0.0, grid=1, channels=3, negatives=False),
        lambda: Layered([{"name": "keystone", "veil": VEIL}, HIDDEN]),
    ],
    ids=["usual", "bare", "layered"],
)


def removed(at_work, amount=3.0):
    """A change of every record along what is taken away, and along nothing else."""
    veil, shape = veil_of(at_work), at_work.features.shape
    drawn = amount * torch.randn(shape[0], VEIL, generator=seeded(5), dtype=torch.float64)
    return (drawn @ veil.directions.double().T).float().view(shape)


def kept(at_work):
    """A change of the same size along anything else."""
    change = torch.randn(at_work.features.shape, generator=seeded(6)).flatten(1)
    directions = veil_of(at_work).directions
    change = change - change @ directions @ directions.T
    size = removed(at_work).flatten(1).norm(dim=1, keepdim=True) / change.norm(dim=1, keepdim=True)
    return (change * size).view_as(at_work.features)


@BOTH
@pytest.mark.parametrize("steps", [0, 25])
@pytest.mark.parametrize("train", [True, False])
def test_no_upload_depends_on_what_the_veil_took_away(make, steps, train):
    """The central promise: for any weights, in training and in prediction, before the network has learned and after."""
    at_work = pictures_at_work(make())
    for _ in range(steps):
        one_step(at_work, rate=0.5)
    features, expected = at_work.features, uploaded(at_work, train)
    at_work.features = features + removed(at_work)
    found = uploaded(at_work, train)
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING)
    at_work.features = features + kept(at_work)
    seen = (uploaded(at_work, train) - expected).norm()
    assert seen > 1000 * (found - expected).norm(), "another change of this size is seen"


def test_local_updates_learn_nothing_from_what_was_taken_away():
    """Between two exchanges a party rehearses uploads at home. What it learns from them leaves with the next ones."""
    told, states = {}, {}
    for name, change in {"none": lambda _: 0.0, "removed": removed, "kept": kept}.items():
        at_work, seen = pictures_at_work(), []
        at_work.features = at_work.features + change(at_work)

        def signal(upload, seen=seen):
            seen.append(upload)
            return upload / len(upload)

        at_work.upload(torch.arange(20), train=True)
        at_work.learn(signal, rate=0.1, updates=4)
        told[name], states[name] = torch.stack(seen), copied(at_work.network)
    assert len(told["none"]) == 4 and not torch.equal(told["none"][0], told["none"][3])
    torch.testing.assert_close(told["removed"], told["none"], rtol=0, atol=ROUNDING)
    assert (told["kept"] - told["none"]).abs().max() > 100 * ROUNDING
    for name in states["none"]:
        torch.testing.assert_close(states["removed"][name], states["none"][name], rtol=0, atol=ROUNDING)


def some_pictures(count=48):
    """Pictures in the middle of the grey scale, so that they can change and still be pictures."""
    coarse = torch.rand(count, 1, 4, 4, generator=seeded(2))
    return 0.4 + 0.2 * nn.functional.interpolate(coarse, (28, 14), mode="bilinear").numpy().astype(np.float32)


def test_a_loaded_model_keeps_the_promise(tmp_path):
    """Predictions come from another process, which has never seen the records that the veil was fitted on."""
    held = Records(ids=pd.RangeIndex(48), images=some_pictures())
    federation = co.Federation.from_images(
        np.concatenate([held.images] * 2, axis=3), np.arange(48) % 2, ["left", "right"]
    )
    model = co.train(
        federation, {"name": "keystone", "veil": VEIL}, epochs=1, batch_size=16, network="mnist_net", progress=False
    )
    model.parts["left"].save(tmp_path)
    part = Part.load(tmp_path).bottom
    trained, loaded = (veil_of(one).state_dict() for one in (model.parts["left"].bottom, part))
    assert all(torch.equal(trained[name], loaded[name]) for name in trained) and trained["directions"].any()
    along = veil_of(part).directions.sum(1).view(1, 28, 14).numpy()
    changed = Records(ids=held.ids, images=held.images + 0.3 * along / np.abs(along).max())
    assert changed.images.min() >= 0 and changed.images.max() <= 1
    assert np.abs(changed.images - held.images).max() > 0.25
    uploads = []
    for one in (held, changed):
        part.defense.seed(5)
        uploads.append(part.upload(one))
    torch.testing.assert_close(*uploads, rtol=0, atol=ROUNDING)
    part.defense.seed(5)
    other = Records(ids=held.ids, images=held.images[:, :, ::-1].copy())
    assert (part.upload(other) - uploads[0]).abs().max() > 100 * ROUNDING, "another picture has another upload"


def test_moved_pictures_tell_no_more():
    """What a component of the party's pictures was, is none any more once it is moved by a pixel."""
    at_work = pictures_at_work(exact(negatives=False))
    at_work._augment = Shifts(0, torch.device("cpu"))
    stream, features = at_work._augment.state_dict(), at_work.features
    expected = uploaded(at_work, train=True)
    at_work._augment.load_state_dict(stream)
    at_work.features = features + removed(at_work)
    torch.testing.assert_close(uploaded(at_work, train=True), expected, rtol=0, atol=ROUNDING)


def test_the_veil_is_fitted_on_training_records_alone():
    """What is told about a test record would depend on other test records."""
    pictures, kinds = some_pictures(60), np.array(["train"] * 40 + ["test"] * 20)
    pictures[kinds == "test"] += 0.2
    both = np.concatenate([pictures] * 2, axis=3)
    federation = co.Federation.from_images(both, np.arange(60) % 2, ["left", "right"], split=kinds)
    split = {"train": 0.6, "validation": 0.0, "test": 0.4}
    narrow = {"name": "keystone", "veil": VEIL}
    model = co.train(federation, narrow, epochs=1, split=split, network="mnist_net", progress=False)
    part = model.parts["left"].bottom
    held = Records(ids=pd.RangeIndex(40), images=pictures[:40])
    flat = part.preparation.transform(held).reshape(40, -1).astype(np.float64)
    veil = veil_of(part)
    np.testing.assert_allclose(veil.mean, flat.mean(0), atol=1e-5)
    first = np.linalg.svd(flat - flat.mean(0))[2][:VEIL]
    np.testing.assert_allclose(np.abs(np.linalg.det(first @ veil.directions.double().numpy())), 1, atol=1e-3)


class Marked(Defense):
    """Marks each record, and builds a network that refuses one without the mark."""

    name = "marked"

    def __init__(self):
        super().__init__()
        self.seen = 0

    def extend(self, bottom, input_shape):
        """Put the guard before the bottom."""
        defense = self

        class Guard(nn.Module):
            def forward(self, x):
                if not x.is_meta:
                    assert (x > 500).all(), "a record without disguise"
                    defense.seen += 1
                return x - 1000

        return nn.Sequential(Guard(), bottom)

    def disguise(self, x):
        """Mark."""
        assert not (x > 500).any(), "disguised twice"
        return x + 1000


@pytest.mark.parametrize("updates", [1, 3])
def test_no_record_goes_through_the_network_without_its_disguise(updates):
    """Training, local updates, validation, test, prediction, best responses: one forgotten call is a leak."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=["age", "bmi", "glucose", "insulin"])
    frame["outcome"] = np.where(frame["age"] + frame["glucose"] > 0, "ill", "well")
    parties = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
    federation = co.Federation.from_frame(frame, parties, label=("clinic", "outcome"))
    defense = Marked()
    model = co.train(
        federation, {"lab": defense}, epochs=2, batch_size=32, local_updates=updates, patience=1, progress=False
    )
    for call in (lambda: model.predict(frame), lambda: model.uploads(frame)):
        before = defense.seen
        call()
        assert defense.seen > before
    gaps = best_response_gaps(model, steps=2).set_index("party")
    assert math.isfinite(gaps.loc["lab", "gap"])


# -- the coin ----------------------------------------------------------------------------------------------------------


def even_pictures(count=32):
    """Pictures whose mean, and whose distance from it, can be written without rounding."""
    return torch.randint(-16, 17, (count, 1, 6, 6), generator=seeded(1)) / 8.0


def even_at_work(**arguments):
    data = even_pictures()
    at_work = set_up(exact(**arguments), conv_bottom(1), data)
    mean = veil_of(at_work).mean.view(1, 6, 6)
    assert torch.equal(mean, data.double().mean(0).float())
    return at_work, 2 * mean - data


def outcomes(at_work, features, train, rows, seeds):
    """All different uploads of a batch, over many throws."""
    at_work.features = features
    return sorted({tuple(uploaded(at_work, train, seed, rows).flatten().tolist()) for seed in range(seeds)})


@pytest.mark.parametrize("train", [True, False])
def test_a_record_and_its_negative_have_the_same_uploads(train):
    """Over all throws of the coins for a batch, bit for bit: so no number of uploads tells which one was there."""
    at_work, negatives = even_at_work()
    for _ in range(3):
        one_step(at_work, rate=0.1)
    data, rows = at_work.features, torch.tensor([4, 9, 17])
    mixed = data.clone()
    mixed[9] = negatives[9]
    expected = outcomes(at_work, data, train, rows, 100)
    assert len(expected) == 8, "three coins"
    assert outcomes(at_work, mixed, train, rows, 100) == expected
    assert outcomes(at_work, negatives, train, rows, 100) == expected
    assert outcomes(at_work, data.roll(1, 0), train, rows, 100) != expected, "but not those of other records"


def test_coins_are_fair_fresh_and_one_for_each_record():
    at_work, _ = even_at_work()
    data, veil = at_work.features, at_work.network[0]
    mean = veil.mean.view(data.shape[1:])
    plain = mean + veil.rest(data).view_as(data)
    throws = []
    for _ in range(200):
        seen = at_work.defense.disguise(data)
        heads, tails = ((seen - one).abs().flatten(1).amax(1) < ROUNDING for one in (plain, 2 * mean - plain))
        assert (heads ^ tails).all(), "what the veil leaves of a record, or its negative, nothing else"
        throws.append(heads)
    counted = torch.stack(throws).double()
    # 6,400 fair throws: five deviations are .031 of all, .18 of a record's 200.
    assert abs(counted.mean() - 0.5) < 0.031 and (counted.mean(0) - 0.5).abs().max() < 0.18
    together = torch.corrcoef(counted.T) - torch.eye(32)
    assert together.abs().max() < 0.36, "nor do two records share a coin"
    again = torch.corrcoef(torch.stack([counted[:-1].flatten(), counted[1:].flatten()]))[0, 1]
    assert abs(again) < 0.063, "nor is it the last one's"


def test_the_coin_is_thrown_again_in_prediction():
    at_work, _ = even_at_work()
    uploads = torch.stack([at_work.upload(torch.arange(32), train=False) for _ in range(20)])
    assert [len({tuple(one.tolist()) for one in uploads[:, row].flatten(1)}) for row in range(32)] == [2] * 32


def test_without_the_coin_records_come_veiled_and_no_more():
    at_work, _ = even_at_work(negatives=False)
    stream, data, veil = at_work.defense.generator.get_state(), at_work.features, at_work.network[0]
    plain = veil.mean.view(data.shape[1:]) + veil.rest(data).view_as(data)
    torch.testing.assert_close(at_work.defense.disguise(data), plain, rtol=0, atol=ROUNDING)
    assert torch.equal(at_work.defense.generator.get_state(), stream)


def test_tables_are_never_touched():
    """Columns have no negative, and the first components of few columns are the columns."""
    at_work, x = set_up(Keystone(3), dense_bottom(), vectors()), vectors()
    stream = at_work.defense.generator.get_state()
    assert at_work.defense.disguise(x) is x
    assert torch.equal(at_work.defense.generator.get_state(), stream)
    assert [type(part).__name__ for part in at_work.network] == ["Sequential", "Sequential"]


# -- the channel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "shape", "cut", "expected"),
    [
        ("resnet18", (3, 32, 16), 6, (64,)),
        ("resnet18", (3, 32, 16), 4, (64,)),
        ("resnet18", (3, 32, 32), 6, (128,)),
        ("resnet34", (3, 64, 32), 6, (64,)),
        ("mnist_net", (1, 28, 14), 6, (64,)),
        ("mnist_net", (1, 28, 14), 8, (32,)),
        ("mlp", (9,), None, (1,)),
    ],
)
def test_uploads_are_small_and_a_top_model_takes_them(family, shape, cut, expected):
    defense = Keystone()
    network = defense.extend(build_bottom(family, shape, cut=cut, seed=0), shape)
    assert upload_shape(network, shape) == expected
    top = build_top(family, [expected, expected], 5, cut=cut, seed=0)
    with torch.device("meta"):
        ghost = torch.empty(3, *expected)
    assert top.to("meta")([ghost, ghost]).shape == (3, 5)


def test_channels_of_pictures_have_deviation_one_before_noise():
    """A network that outgrew the noise would need no defense to be read."""
    at_work = pictures_at_work(exact(channels=5))
    for _ in range(20):
        upload, grad = one_step(at_work, rate=1.0)
    columns = upload.view(len(upload), 5, -1).movedim(1, -1).reshape(-1, 5)
    torch.testing.assert_close(columns.mean(0), torch.zeros(5), rtol=0, atol=1e-5)
    torch.testing.assert_close(columns.std(0, correction=0), torch.ones(5), rtol=1e-2, atol=0)
    assert grad.shape == upload.shape


def test_numbers_of_tables_come_to_deviation_one_and_never_leave_their_bounds():
    at_work = set_up(exact(channels=5, levels=0), dense_bottom(), vectors(200))
    for _ in range(20):
        upload, _ = one_step(at_work, rate=10.0)
        assert upload.abs().max() <= 2, "whatever gradients make of the weights"
    for _ in range(200):
        upload, _ = one_step(at_work, rate=0.0)
    free = at_work.network.train()(at_work.features)
    torch.testing.assert_close(free.mean(0), torch.zeros(5), rtol=0, atol=0.01)
    torch.testing.assert_close(free.std(0), torch.ones(5), rtol=0.01, atol=0)
    torch.testing.assert_close(upload, free.clamp(-2, 2), rtol=0.01, atol=0.01)


def test_noise_has_the_stated_deviation_and_is_fresh():
    at_work = pictures_at_work(Keystone(VEIL, sigma=0.7, negatives=False))
    rows = torch.arange(48)
    first, second = (at_work.upload(rows, train=False) for _ in range(2))
    quiet = pictures_at_work(exact(negatives=False)).upload(rows, train=False)
    assert first.shape == (48, 32 * 2 * 2)
    assert (first - quiet).std().item() == pytest.approx(0.7, rel=0.03)
    assert (first - second).std().item() == pytest.approx(0.7 * math.sqrt(2), rel=0.03)


@given(
    levels=st.integers(2, 70),
    values=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20),
    half=st.booleans(),
)
def test_rounding_gives_one_of_so_many_values_in_order_and_nothing_else(levels, values, half):
    """The last bits of a number that was rounded almost would tell what it was before."""
    h = torch.tensor(values).to(torch.bfloat16 if half else torch.float32).requires_grad_()
    found = rounded(h, levels)
    assert torch.isin(found, values_of(levels).to(h)).all()
    assert (found.detach()[h.argsort()].diff() >= 0).all()
    found.backward(torch.arange(1.0, len(values) + 1).to(h.dtype))
    assert torch.equal(h.grad, torch.arange(1.0, len(values) + 1).to(h.dtype)), "as if nothing had happened"


@pytest.mark.parametrize("levels", [2, 3, 8, 42, 62])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_value_stands_for_as_many_numbers_of_a_normal_law(levels, dtype):
    """A value that is rarely sent is a bit that was paid for and not used."""
    h = torch.randn(200_000, generator=seeded())
    found, counts = rounded(h.to(dtype), levels).float().unique(return_counts=True)
    assert len(found) == levels
    assert (counts / len(h) * levels - 1).abs().max() < (0.06 if dtype == torch.float32 else 0.4)
    torch.testing.assert_close(found, values_of(levels).float(), rtol=0 if dtype == torch.float32 else 0.01, atol=0)


def test_numbers_that_are_none_are_not_hidden_by_rounding():
    """A diverged network would go on as if it had learned something."""
    assert rounded(torch.tensor([math.nan, 1.0]), 4).isnan().tolist() == [True, False]


def test_tables_upload_one_number_of_eight_values():
    at_work = set_up(Keystone(), dense_bottom(), vectors(2000))
    for _ in range(100):
        one_step(at_work, rate=0.0)
    for train in (True, False):
        upload = at_work.upload(torch.arange(2000), train)
        assert upload.shape == (2000, 1)
        torch.testing.assert_close(upload.unique(), values_of(8).float())
    assert torch.equal(at_work.upload(torch.arange(9), False), at_work.upload(torch.arange(9), False)), "no noise"
    before = copied(at_work.network)
    one_step(at_work, rate=0.1)
    assert not torch.equal(at_work.network[0][0].weight, before["0.0.weight"]), "gradients pass the rounding"


def test_anybody_can_do_the_same_to_a_representation():
    defense = Keystone(sigma=0.3, levels=4)
    defense.extend(conv_bottom(), (3, 12, 12))
    h = torch.randn(500, 8, 2, 2, generator=seeded())
    stream = defense.generator.get_state()
    noise = defense.operator()(h) - rounded(h, 4)
    assert noise.std().item() == pytest.approx(0.3, rel=0.03) and abs(noise.mean().item()) < 0.01
    assert torch.equal(defense.generator.get_state(), stream)


# -- how much the channel carries --------------------------------------------------------------------------------------


def built(shape=(3, 12, 12), **arguments):
    defense = Keystone(VEIL, **arguments)
    defense.extend(conv_bottom() if len(shape) == 3 else dense_bottom(), shape)
    return defense


def test_capacity_is_that_of_the_formula():
    pictures, table = built(), built((6,))
    assert pictures.capacity_bits() == pytest.approx(128 * 0.5 * math.log2(1 + 4**2 / 0.1**2))
    assert table.capacity_bits() == pytest.approx(math.log2(8))
    assert built(channels=3, grid=1, sigma=0.5).capacity_bits() == pytest.approx(3 * 0.5 * math.log2(1 + 4**2 / 0.5**2))
    assert built((6,), channels=2, levels=4).capacity_bits() == pytest.approx(4)
    assert built(sigma=0.0).capacity_bits() == math.inf
    # Both: no number is larger than the outermost level, which is .674 of two and 1.534 of eight.
    both = built((6,), sigma=1.0, levels=2)
    assert both.capacity_bits() == pytest.approx(0.5 * math.log2(1 + 0.67449**2))
    assert built((6,), sigma=0.1, levels=2).capacity_bits() == pytest.approx(1.0)
    assert built((6,), sigma=1.0).capacity_bits() == pytest.approx(0.5 * math.log2(1 + 1.53412**2))
    assert built((6,), sigma=1.0, levels=0).capacity_bits() == pytest.approx(0.5 * math.log2(1 + 2**2))
    for defense in (pictures, table, both):
        assert defense.capacity_bits(uploads=30) == pytest.approx(30 * defense.capacity_bits())


@pytest.mark.parametrize("levels", [0, 2, 3, 8])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_no_channel_carries_more_than_its_capacity(levels, sigma):
    """Mutual information of a normal number and its upload, summed up over a fine grid."""
    h = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    weight = torch.exp(-h.square() / 2)
    weight /= weight.sum()
    sent = rounded(h, levels) if levels else h.clamp(-4, 4)
    y = torch.linspace(-16, 16, 3001, dtype=torch.float64)
    density = torch.exp(-((y[None] - sent[:, None]) / sigma).square() / 2) / (sigma * math.sqrt(2 * math.pi))
    mixed = weight @ density
    entropy = -(torch.special.xlogy(mixed, mixed).sum() * (y[1] - y[0])) / math.log(2)
    told = float(entropy) - 0.5 * math.log2(2 * math.pi * math.e * sigma**2)
    assert told <= built(sigma=sigma, levels=levels).capacity_bits() / 128 + 1e-6
    if not levels:
        assert told == pytest.approx(0.5 * math.log2(1 + 1 / sigma**2), rel=1e-3), "as the docstring says of a batch"


def test_no_network_and_no_record_gets_past_the_capacity():
    """Whoever sends gradients could teach a network to be loud, or a layer behind could be: the noise would drown."""
    for defense in (built(sigma=0.1), built((6,), levels=0, sigma=0.1)):
        loud = torch.tensor([-1e6, math.inf, -3.0, 0.5]).repeat(100, 1)
        sent = defense.protect(loud, loud, train=True)
        assert sent.abs().max() < 4 + 0.1 * 6
        noise = sent[:, 3] - 0.5
        assert noise.std().item() == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize(
    ("strength", "remedy"),
    [
        ({"levels": 10**13}, "at most"),
        ({"channels": 10**12}, "at most"),
        ({"grid": 10**400}, "at most"),
        ({"veil": 432}, "less than 432"),
    ],
)
def test_strengths_without_measure_are_told_before_anybody_connects(strength, remedy):
    with pytest.raises(ConfigError, match=f"keystone.{next(iter(strength))}.*{remedy}"):
        Keystone(**strength).extend(conv_bottom(), (3, 12, 12))


def test_next_to_no_noise_has_a_capacity_too():
    assert 1000 < built(sigma=1e-200).capacity_bits() < math.inf


def test_the_log_tells_the_capacity_where_there_is_one():
    assert built().meters() == {"capacity_bits": pytest.approx(64 * math.log2(1601))}
    assert built((6,)).meters() == {"capacity_bits": 3.0}
    assert built(sigma=0.0).meters() == {} and Keystone().meters() == {"capacity_bits": 0.0}


# -- at work -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [1, 2, 50])
def test_a_batch_may_overlap_in_one_record(grid):
    """A party that holds one record of a batch would stop the run."""
    for at_work in (
        pictures_at_work(Keystone(VEIL, grid=grid)),
        set_up(Keystone(grid=grid), dense_bottom(), vectors()),
    ):
        one_step(at_work, rows=torch.tensor([5]))
        one_step(at_work)
        upload, _ = one_step(at_work, rows=torch.tensor([5]))
        assert torch.isfinite(upload).all()
        assert all(torch.isfinite(tensor).all() for tensor in at_work.network.state_dict().values())


def test_a_grid_larger_than_the_maps_is_that_of_the_maps():
    assert upload_shape(pictures_at_work(Keystone(VEIL, grid=50)).network, (3, 12, 12)) == (32 * 6 * 6,)


def digits(count=600):
    data = co.load_dataset("digits")
    larger = data.images[:count].repeat(3, axis=2).repeat(3, axis=3)
    return np.pad(larger, [(0, 0), (0, 0), (2, 2), (2, 2)]), np.asarray(data.label)[:count]


@pytest.fixture(scope="module")
def model():
    """Halves of digits: one party under keystone, the other hides something in it, too."""
    pictures, labels = digits()
    secrets = {"right": pd.DataFrame({"even": labels % 2})}
    federation = co.Federation.from_images(pictures, labels, ["left", "right"], secrets=secrets)
    narrow = {"name": "keystone", "veil": 8}
    chosen = {"left": narrow, "right": {"name": "layered", "layers": [narrow, {**HIDDEN, "alpha": 0.0, "sigma": 0.1}]}}
    split = {"train": 0.6, "validation": 0.0, "test": 0.4}
    optimizer = {"name": "adam", "learning_rate": 3e-3}
    settings = {"seed": 0, "epochs": 12, "batch_size": 32, "split": split, "optimizer": optimizer, "progress": False}
    return co.train(federation, chosen, network="mnist_net", **settings)


def test_halves_of_digits_are_learned_under_it(model):
    """A defense that lets nothing through protects well."""
    assert model.scores["accuracy"] > 0.5, "guessing finds a tenth"
    line = model.parts["right"].result["history"][-1]
    assert line["capacity_bits"] == pytest.approx(32 * math.log2(1601)) and 0 < line["head_loss_even"] < 2


def test_best_responses_see_disguised_records_too(model):
    gaps = best_response_gaps(model, steps=2)
    assert np.isfinite(gaps["gap"]).all() and list(gaps["party"]) == ["left", "right"]


def test_the_strength_on_a_table_is_its_levels_and_not_a_veil():
    """A table would say how much is taken away from pictures, of which there are none."""
    defense = make_defense("keystone", veil=8, levels=4)
    defense.extend(build_bottom("mlp", (7,), seed=0), (7,))
    assert defense.knob == "levels" and strength_of(defense) == 4
    defense.extend(build_bottom("mlp", (1, 8, 8), seed=0), (1, 8, 8))
    assert defense.knob == type(defense).knob == "veil" and strength_of(defense) == 8


def test_an_audit_names_its_strength(model):
    frame = co.audit(model, attacks=["ridge"], seeds=1, progress=False).frame
    left = frame[(frame["party"] == "left") & (frame["attack"] == "ridge")].iloc[0]
    assert left["defense"] == "keystone" and left["strength"] == 8.0
    assert json.loads(left["defense_settings"]) == {
        "veil": 8, "channels": None, "grid": 2, "sigma": None, "levels": None, "negatives": True,
    }  # fmt: skip
    assert left["skill"] < 0.5


def test_a_saved_layered_model_uploads_veiled_records(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = co.load(tmp_path / "model")
    for party in ("left", "right"):
        ours, theirs = (one.parts[party].bottom for one in (model, loaded))
        assert isinstance(theirs, BottomPart) and theirs.defense.describe() == ours.defense.describe()
        assert torch.equal(veil_of(ours).directions, veil_of(theirs).directions) and veil_of(theirs).directions.any()


# -- names and numbers -------------------------------------------------------------------------------------------------


def test_it_is_listed_and_needs_no_labels():
    entry = co.defenses()["keystone"]
    assert entry is Keystone and "keystone" in str(co.defenses()) and not entry.needs_labels
    assert not entry.needs_secrets and Keystone().spend() is None


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"veil": 0, "channels": 3, "grid": 4, "sigma": 0.25, "levels": 16, "negatives": False},
        {"levels": 0, "sigma": 0},
    ],
    ids=str,
)
def test_its_description_makes_it_again(given):
    usual = {"veil": 32, "channels": None, "grid": 2, "sigma": None, "levels": None, "negatives": True}
    described = make_defense("keystone", **given).describe()
    assert described == {"name": "keystone", **usual, **given}
    again = json.loads(json.dumps(described))
    assert make_defense(again.pop("name"), **again).describe() == described


WHOLE = "give a whole number of at least"
BAD = [
    ({"veil": -1}, f"veil: -1 is not allowed ({WHOLE} 0)"),
    ({"veil": 2.5}, f"veil: 2.5 is not allowed ({WHOLE} 0)"),
    ({"veil": "many"}, f"veil: 'many' is not allowed ({WHOLE} 0)"),
    ({"veil": True}, f"veil: True is not allowed ({WHOLE} 0)"),
    ({"veil": None}, f"veil: None is not allowed ({WHOLE} 0)"),
    ({"channels": 0}, f"channels: 0 is not allowed ({WHOLE} 1)"),
    ({"channels": 1.0}, f"channels: 1.0 is not allowed ({WHOLE} 1)"),
    ({"grid": 0}, f"grid: 0 is not allowed ({WHOLE} 1)"),
    ({"sigma": -0.1}, "sigma: -0.1 is not allowed (give a number of at least 0)"),
    ({"sigma": math.inf}, "sigma: inf is not allowed (give a number of at least 0)"),
    ({"sigma": math.nan}, "sigma: nan is not allowed (give a number of at least 0)"),
    ({"levels": 1}, "levels: one level tells nothing (give 0, or 2 and more)"),
    ({"levels": -8}, f"levels: -8 is not allowed ({WHOLE} 0)"),
    ({"levels": 2.0}, f"levels: 2.0 is not allowed ({WHOLE} 0)"),
    ({"negatives": "yes"}, "negatives: 'yes' is not allowed (give true or false)"),
    ({"negatives": 1}, "negatives: 1 is not allowed (give true or false)"),
    ({"negatives": None}, "negatives: None is not allowed (give true or false)"),
]


@pytest.mark.parametrize(("strength", "line"), BAD, ids=lambda value: str(value)[:24])
def test_bad_strengths_are_told_in_one_line(strength, line, tmp_path):
    with pytest.raises(ConfigError) as caught:
        make_defense("keystone", **strength)
    assert str(caught.value) == f"keystone.{line}"
    file = PartyFile.model_validate({"party": "lab", "defense": {"name": "keystone", **strength}})
    with pytest.raises(ConfigError) as caught:
        defense_of(file, tmp_path / "lab.yaml")
    assert str(caught.value) == f"{tmp_path / 'lab.yaml'}: defense.{line}"


def test_an_unknown_strength_is_told():
    with pytest.raises(ConfigError, match=r"keystone: unknown parameter 'veils' \(it takes veil, .*'veil'\?\)"):
        make_defense("keystone", veils=3)


def test_a_veil_thicker_than_the_pictures_is_told_before_anything_is_uploaded():
    pictures, labels = digits(40)
    federation = co.Federation.from_images(pictures, labels, ["left", "right"])
    with pytest.raises(
        ConfigError, match=r"keystone\.veil: \d+ records of 392 numbers have no 64 components"
    ) as caught:
        co.train(federation, {"name": "keystone", "veil": 64}, network="mnist_net", epochs=1, progress=False)
    assert caught.value.remedy.startswith("give at most ")
