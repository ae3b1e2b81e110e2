"""CausShield as a whole: what is uploaded, how the gradient goes back, what stays when training ends."""

import copy
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import colonnade as co
from colonnade.defend.causshield import CausShield
from colonnade.defend.causshield.adaptation import Adaptation, AdaptationSettings
from colonnade.defend.causshield.decomposition import as_samples, decomposition_loss
from colonnade.defend.causshield.defense import CALIBRATION_BATCHES, LASTING, ROUTES
from colonnade.defend.causshield.generator import Generator
from colonnade.defend.causshield.surrogates import ImageSurrogates
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError
from colonnade.nets import initialised
from colonnade.nets.blocks import BasicBlock

SHAPE = (2, 6, 4)
RATE = 0.01  # far larger than the default, so that a step can be seen


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def small_bottom(seed=0):
    """A convolution, a normalisation and a block with a shortcut that has a normalisation of its own."""
    return initialised(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), BasicBlock(4, 6, 2)), seed
    )


def images(count=12, seed=0):
    return torch.rand(count, *SHAPE, generator=stream(seed))


def shield(**arguments):
    return CausShield(**{"rounds": 3, "learning_rate": RATE, "surrogate": "jitter", "mask_source": "none", **arguments})


def at_work(data=None, seed=0, **arguments):
    """A defense that is ready for its first batch, and its bottom."""
    defense, bottom = shield(**arguments), small_bottom()
    data = images() if data is None else data
    defense.seed(seed)
    defense.prepare(defense.extend(bottom, tuple(data.shape[1:])), data)
    return defense, bottom


def gradient_of(defense, bottom, x, grad):
    bottom.zero_grad()
    h = bottom(x)
    upload = defense.protect(x, h, train=True)
    defense.backward(x, h, upload, grad)
    return upload.detach(), [weight.grad.clone() for weight in bottom.parameters()]


# -- the generator ----------------------------------------------------------------------------------------------------


def test_one_pass_over_records_and_surrogates_equals_two():
    """Batch normalisation would mix the surrogates' colours into the records' representations."""
    bottom, x, other = small_bottom(), images(seed=1), 2 * images(seed=2) + 1
    slow = copy.deepcopy(bottom).train()
    raw, altered = slow(x), slow(other)
    (raw.square().sum() + altered.sum()).backward()
    generator = Generator(bottom, RATE)
    together = generator.pair(x, other)
    torch.testing.assert_close(together[0], raw, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together[1], altered, atol=1e-5, rtol=1e-5)
    (together[0].square().sum() + together[1].sum()).backward()
    for found, wanted in zip(generator.weights, slow.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, atol=1e-4, rtol=1e-4)


def test_running_statistics_are_those_of_uploads_alone():
    """Evaluation would normalise records by the colours of surrogates."""
    bottom, x = small_bottom(), images()
    generator = Generator(bottom, RATE)
    before = {name: buffer.clone() for name, buffer in generator.network.named_buffers()}
    generator.adapt(x, 5 * images(seed=1), lambda raw, altered: raw.sum() + altered.sum())
    assert all(torch.equal(before[name], buffer) for name, buffer in generator.network.named_buffers())
    slow = copy.deepcopy(bottom).train()
    generator.restart(list(bottom.parameters()))
    generator.upload(x, train=True)
    slow(x)
    for (name, found), wanted in zip(generator.network.named_buffers(), slow.buffers(), strict=True):
        torch.testing.assert_close(found, wanted, msg=name)


@pytest.mark.parametrize("dimensions", ["local", "gap", "flat"])
@pytest.mark.parametrize("mode", ["cirl", "frobenius"])
def test_the_upload_is_that_of_a_copy_trained_for_m_steps(mode, dimensions):
    """The algorithm, as one would write it first: deep copies, two passes, a new optimiser for every batch."""
    defense, bottom = at_work(dec_mode=mode, dimensions=dimensions, dec_weight=2.0)
    for batch in (images(8, seed=3), images(8, seed=4)):
        draws = defense.generator.clone_state()
        surrogate = defense._surrogates.draw(batch, draws)
        slow = copy.deepcopy(bottom).train()
        optimizer = torch.optim.Adam(slow.parameters(), lr=RATE)
        for _ in range(3):
            raw, altered = as_samples(slow(batch), dimensions), as_samples(slow(surrogate), dimensions)
            optimizer.zero_grad()
            (2.0 * decomposition_loss(raw, altered, mode)).backward()
            optimizer.step()
        upload = defense.protect(batch, bottom(batch), train=True)
        torch.testing.assert_close(upload, slow(batch).detach(), atol=2e-3, rtol=2e-3)
        assert not torch.allclose(upload, bottom(batch), atol=0.02)
        assert not upload.requires_grad


def test_the_masker_scores_join_the_generators_loss():
    """Eq. 19 would lose one of its terms."""
    with_masker, bottom = at_work(mask_source="masker", mask_weight=0.5, dec_weight=2.0)
    adaptation = with_masker._adaptation
    raw, altered = bottom(images()), bottom(images(seed=1))
    slow = 2.0 * decomposition_loss(as_samples(raw, "local"), as_samples(altered, "local"), "cirl")
    slow = slow + 0.5 * (1 - torch.sigmoid(adaptation._masker.network(raw))).square().mean()
    torch.testing.assert_close(adaptation.loss(raw, altered), slow)


@pytest.mark.parametrize(("faithful", "lessons"), [(False, 1), (True, 3)])
def test_the_masker_learns_once_a_batch_or_once_a_step(faithful, lessons, monkeypatch):
    defense, bottom = at_work(mask_source="masker", faithful=faithful)
    masker, learned = defense._adaptation._masker, []
    before = [weight.clone() for weight in masker.network.parameters()]
    usual = masker.learn
    monkeypatch.setattr(masker, "learn", lambda *given: (learned.append(given), usual(*given)))
    defense.protect(images(), bottom(images()), train=True)
    assert len(learned) == lessons
    assert not all(torch.equal(a, b) for a, b in zip(before, masker.network.parameters(), strict=True))


def test_upper_dimensions_can_come_from_the_task(monkeypatch):
    """`mask_source="grad"`: those channels whose gradients are largest, averaged over the batches so far."""
    defense, bottom = at_work(mask_source="grad")
    masker, told = defense._adaptation._masker, []
    monkeypatch.setattr(masker, "learn", lambda raw, altered, noise, upper: told.append(upper))
    x = images()
    sizes = torch.tensor([3.0, 1.0, 5.0, 2.0, 4.0, 0.5])
    for factor in (sizes, 10 * sizes.flip(0)):
        upload = defense.protect(x, h := bottom(x), train=True)
        grad = factor[None, :, None, None] * torch.randn(upload.shape, generator=stream()).sign()
        defense.backward(x, h, upload, grad)
    defense.protect(x, bottom(x), train=True)
    assert len(told) == 2  # nothing is known before the first answer
    assert told[0].tolist() == [1, 0, 1, 0, 1, 0]
    mean = 0.9 * sizes + 0.1 * 10 * sizes.flip(0)
    assert told[1].nonzero().flatten().tolist() == sorted(mean.topk(3).indices.tolist())


def test_the_generator_puts_its_weight_on_what_surrogates_leave_alone():
    """The point of the method. A linear generator, 32 inputs that surrogates keep and 32 that they change."""
    bottom = initialised(lambda: nn.Linear(64, 32), 0)
    settings = AdaptationSettings(
        learning_rate=0.01, share=1.0, dec_mode="cirl", dec_weight=5.0, dimensions="local", mask_source="masker",
        mask_weight=0.1, mask_share=0.5, faithful=False, cuda_graph=False,
    )  # fmt: skip
    adaptation, generator = Adaptation(bottom, (32,), settings, seed=0), stream()
    adaptation.start()
    for _ in range(300):
        x = torch.randn(128, 64, generator=generator)
        surrogate = torch.cat([x[:, :32], torch.randn(128, 32, generator=generator)], dim=1)
        adaptation.take_steps(x, surrogate, 1, generator)
    energy = adaptation.generator.weights[0].detach().square().sum(0)
    assert energy[:32].sum() / energy.sum() > 0.99
    # What the masker says about it: nothing. Half of the scores go up, half go down, and there they stay.
    scores = torch.sigmoid(adaptation._masker.network(adaptation.generator.upload(x, train=True)))
    assert 0.4 < (scores > 0.5).float().mean() < 0.6


# -- the way back -----------------------------------------------------------------------------------------------------


def test_straight_takes_the_gradient_as_if_the_bottom_had_made_the_upload():
    """Eq. 22: the gradient at G(x) times the Jacobian of f."""
    defense, bottom = at_work()
    x = images()
    grad = torch.randn(12, 6, 3, 2, generator=stream(5))
    twin = copy.deepcopy(bottom)
    twin(x).backward(grad)
    expected = [weight.grad for weight in twin.parameters()]
    _, found = gradient_of(defense, bottom, x, grad)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("route", ["first_order", "persistent"])
def test_the_other_routes_take_it_through_the_generator(route):
    """The gradient at the generator's weights, though the bottom's weights are those that move."""
    defense, bottom = at_work(route=route)
    x = images()
    grad = torch.randn(12, 6, 3, 2, generator=stream(5))
    straight = gradient_of(at_work()[0], small_bottom(), x, grad)
    upload, found = gradient_of(defense, bottom, x, grad)
    generator = copy.deepcopy(bottom).train()
    with torch.no_grad():
        for weight, shift in zip(generator.parameters(), defense._adaptation.shift, strict=True):
            weight += shift
    generator.zero_grad()
    output = generator(x)
    output.backward(grad)
    torch.testing.assert_close(upload, output.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(upload, straight[0], atol=1e-5, rtol=1e-5)
    for a, b in zip(found, generator.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, atol=1e-4, rtol=1e-4)
    assert not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(found, straight[1], strict=True))


def test_separate_lets_nobody_steer_what_is_uploaded():
    """Whoever sends gradients that are made to be read by, as URVFL does, would otherwise teach the party to tell."""
    uploads = []
    for seed in (5, 6):
        defense, bottom = at_work(route="separate", mask_source="masker")
        start = copy.deepcopy(bottom.state_dict())
        step = torch.optim.SGD(bottom.parameters(), lr=0.1, weight_decay=0.1)
        for batch in range(3):
            grad = torch.randn(12, 6, 3, 2, generator=stream(seed + batch))
            bottom.zero_grad()
            x = images(seed=batch)
            upload = defense.protect(x, h := bottom(x), train=True)
            defense.backward(x, h, upload, grad)
            step.step()
        assert all(torch.equal(start[name], weight) for name, weight in bottom.named_parameters())
        defense.finish(bottom, images())
        uploads.append(defense.protect(images(seed=9), bottom(images(seed=9)), train=False))
    assert torch.equal(*uploads)


def distance(tensors):
    return sum(tensor.square().sum().item() for tensor in tensors) ** 0.5


def test_only_lasting_generators_remember_the_batch_before():
    """Batches would not be independent of each other where they should be."""
    lengths = {}
    for route in ROUTES:
        defense, bottom = at_work(route=route)
        lengths[route] = []
        for _ in range(4):
            defense.protect(images(), bottom(images()), train=True)
            lengths[route].append(distance(defense._adaptation.shift))
    for route in ("straight", "first_order"):
        assert max(lengths[route]) < 1.3 * min(lengths[route])
    for route in LASTING:
        assert lengths[route][3] > 2 * lengths[route][0]


# -- strength ---------------------------------------------------------------------------------------------------------


def test_rounds_fall_linearly_and_stay():
    defense = shield(rounds=30, rounds_end=5, decay_steps=100)
    assert [defense.rounds_at(step) for step in (0, 20, 50, 100, 1000)] == [30, 25, 18, 5, 5]
    assert shield(rounds=7).rounds_at(10**6) == 7


def test_the_number_of_steps_is_what_the_schedule_says(monkeypatch):
    defense, bottom = at_work(rounds=4, rounds_end=1, decay_steps=3)
    generator, taken = defense._adaptation.generator, []
    usual = generator.adapt
    monkeypatch.setattr(generator, "adapt", lambda *given: (taken.append(len(given[0])), usual(*given))[1])
    counts = []
    for _ in range(5):
        taken.clear()
        defense.protect(images(), bottom(images()), train=True)
        counts.append(len(taken))
    assert counts == [4, 3, 2, 1, 1]
    assert set(taken) == {12}


def test_a_share_of_the_batch_is_enough_to_adapt_to():
    """`share` would leave records out of the upload, or change nothing."""
    half, bottom = at_work(share=0.5)
    whole, _ = at_work()
    x = images()
    uploads = [defense.protect(x, bottom(x), train=True) for defense in (half, whole)]
    assert uploads[0].shape == uploads[1].shape and not torch.allclose(*uploads, atol=1e-3)
    slow = Generator(bottom, RATE)
    surrogate = whole._surrogates.draw(x, stream_after_prepare())
    for _ in range(3):
        slow.adapt(x[:6], surrogate[:6], half._adaptation.loss)
    torch.testing.assert_close(uploads[0], slow.upload(x, train=True), atol=1e-5, rtol=1e-5)


def stream_after_prepare():
    return at_work()[0].generator


def test_a_batch_of_one_record_goes_through():
    """The last batch of an epoch may be that small."""
    defense, bottom = at_work()
    x = images(1)
    torch.testing.assert_close(defense.protect(x, bottom(x), train=True), bottom(x).detach())


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_bfloat16_adaptation_uses_the_weights_as_they_move():
    """Autocast keeps cast copies of weights: all M steps would start from the first weights, and the upload too."""
    mixed, bottom = at_work()
    stepwise, _ = at_work()
    x = images()
    with torch.autocast("cpu", torch.bfloat16):
        h = bottom(x)
        upload = mixed.protect(x, h, train=True)
    # Here no autocast outlasts a pass, so that nothing can be kept.
    assert torch.equal(stepwise._trained_upload(x, h, torch.bfloat16), upload)
    assert upload.dtype == torch.bfloat16 and not torch.allclose(upload, h, atol=0.1)
    mixed.backward(x, h, upload, torch.ones(upload.shape))
    assert all(torch.isfinite(weight.grad).all() for weight in bottom.parameters())


def test_psi_and_decomposition_are_metered():
    """Definition 2, relative to the representation; the convergence bound needs it small."""
    defense, bottom = at_work()
    ratios = []
    for seed in (1, 2):
        x = images(seed=seed)
        h = bottom(x)
        upload = defense.protect(x, h, train=True)
        ratios.append(((upload - h) ** 2).sum().item() / (h**2).sum().item())
    meters = defense.meters()
    assert meters["psi"] == pytest.approx(np.mean(ratios), rel=1e-4)
    assert 0 < meters["decomposition"] < 1.1
    assert defense.meters() == {}


# -- uploads that teach nothing ---------------------------------------------------------------------------------------


def test_between_epochs_uploads_come_from_the_bottom_plus_the_last_change():
    """Validation would judge the unprotected bottom, or weights that are a step old."""
    defense, bottom = at_work()
    for seed in range(5):
        defense.protect(images(seed=seed), bottom(images(seed=seed)), train=True)
    with torch.no_grad():
        for weight in bottom.parameters():
            weight += 0.01
    slow = copy.deepcopy(bottom)
    with torch.no_grad():
        for weight, shift in zip(slow.parameters(), defense._adaptation.shift, strict=True):
            weight += shift
    slow.load_state_dict(dict(defense._adaptation.generator.network.named_buffers()), strict=False)
    x = images(seed=9)
    found = defense.protect(x, bottom.eval()(x), train=False)
    torch.testing.assert_close(found, slow.eval()(x).detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("deploy_rounds", "steps", "least"), [(None, 3, 0.005), (30, 30, 0.05)])
def test_the_generator_that_stays_is_adapted_and_then_frozen(monkeypatch, deploy_rounds, steps, least):
    """Test uploads would come from a bottom that hides nothing, or change from one batch to the next."""
    defense, bottom = at_work(data=images(200), deploy_rounds=deploy_rounds)
    defense.protect(images(), bottom(images()), train=True)
    generator, taken = defense._adaptation.generator, []
    usual = generator.adapt
    monkeypatch.setattr(generator, "adapt", lambda *given: (taken.append(given[0]), usual(*given))[1])
    defense.finish(bottom, images(200))
    assert len(taken) == steps and all(len(batch) == 128 for batch in taken)
    assert not torch.equal(taken[0], taken[1])
    x = images(seed=9)
    h = bottom.eval()(x)
    upload = defense.protect(x, h, train=False)
    assert not torch.allclose(upload, h, atol=least)
    torch.testing.assert_close(defense.protect(x[:3], h[:3], train=False), upload[:3], atol=1e-5, rtol=1e-5)
    assert list(defense.state_dict()) == [
        "generator",
        "step",
        *(f"deployed/{n}" for n in generator.network.state_dict()),
    ]


def test_running_statistics_of_what_stays_are_those_of_training_records():
    data = images(200)
    defense, bottom = at_work(data=data)
    defense.finish(bottom, data)
    norm = next(
        part for part in defense._deployed.network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)
    )
    first = defense._deployed.network[0](data).detach()
    torch.testing.assert_close(norm.running_mean, first.mean((0, 2, 3)), atol=0.02, rtol=0)
    assert norm.num_batches_tracked == CALIBRATION_BATCHES and norm.momentum == 0.1


def test_the_bottom_itself_can_be_deployed():
    defense, bottom = at_work(deploy="bottom")
    x = images()
    upload = defense.protect(x, bottom(x), train=True)
    h = bottom.eval()(x)
    assert not torch.allclose(upload, h)
    assert defense.protect(x, h, train=False) is h
    defense.finish(bottom, x)
    assert defense.protect(x, h, train=False) is h
    assert set(defense.state_dict()) == {"generator", "step"}


@pytest.mark.parametrize("route", LASTING)
def test_a_lasting_generator_stays_as_it_is(route):
    defense, bottom = at_work(route=route)
    for _ in range(3):
        defense.protect(images(), bottom(images()), train=True)
    shift = defense._adaptation.shift
    defense.finish(bottom, images())
    for weight, start, by in zip(defense._deployed.weights, bottom.parameters(), shift, strict=True):
        torch.testing.assert_close(weight, start + by)


# -- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"mask_source": "masker"},
        {"mask_source": "grad", "route": "first_order"},
        {"mask_source": "masker", "route": "persistent", "rounds_end": 1, "decay_steps": 4, "faithful": True},
        {"mask_source": "masker", "route": "separate"},
    ],
    ids=str,
)
def test_a_resumed_defense_goes_on_bit_for_bit(arguments):
    """After a crash the resumed run would end with other weights."""

    def go_on(defense, bottom, steps):
        for step in steps:
            x = images(seed=step)
            upload = defense.protect(x, h := bottom(x), train=True)
            defense.backward(x, h, upload, torch.randn(upload.shape, generator=stream(step)))
        return upload

    first, bottom = at_work(**arguments)
    go_on(first, bottom, range(3))
    kept = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    network = copy.deepcopy(bottom)
    expected = go_on(first, bottom, range(3, 6))
    second, other = at_work(seed=7, **arguments)
    other.load_state_dict(network.state_dict())
    second.load_state_dict(kept)
    assert torch.equal(go_on(second, other, range(3, 6)), expected)
    ends = first.state_dict(), second.state_dict()
    assert ends[0].keys() == ends[1].keys() and all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    x = images(seed=99)
    settled = [defense.protect(x, x, train=False) for defense in (first, second)]
    assert torch.equal(*settled)


def test_whoever_resumes_does_not_learn_surrogates_again(monkeypatch):
    """After a crash, Lab surrogates of many pictures would take their hour once more, and then be overwritten."""

    def fit(*_):
        raise AssertionError("learned again")

    data = torch.rand(6, 3, 8, 8, generator=stream())
    bottom = nn.Conv2d(3, 4, 3)
    first, second = (CausShield(surrogate="lab", surrogate_epochs=1) for _ in range(2))
    first.seed(0)
    first.prepare(first.extend(bottom, (3, 8, 8)), data)
    monkeypatch.setattr(ImageSurrogates, "fit", fit)
    second.resume(second.extend(bottom, (3, 8, 8)), data)
    second.load_state_dict(first.state_dict())
    ends = first.state_dict(), second.state_dict()
    assert any(name.startswith("surrogates") for name in ends[0])
    assert ends[0].keys() == ends[1].keys() and all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_resumed_run_draws_its_surrogates_where_the_records_are():
    """The networks are loaded and not trained: on a GPU the first batch after a crash found them elsewhere."""
    surrogates = ImageSurrogates("lab", (3, 8, 8), None, "mix", 1)
    surrogates.recall(torch.empty(4, 3, 8, 8, device="meta"))
    networks = surrogates.colour.colours, surrogates.colour.lightness
    assert {weight.device.type for network in networks for weight in network.parameters()} == {"meta"}


def test_local_updates_count_as_no_steps():
    """With Q = 3 the rounds fell three times as fast, and Ψ told of uploads that were never sent."""
    counted = []
    for rehearsed in (0, 2):
        defense, bottom = at_work(rounds_end=1, decay_steps=4)
        for step in range(2):
            x = images(seed=step)
            defense.protect(x, bottom(x), train=True)
            for _ in range(rehearsed):
                defense.rehearse(x, bottom(x))
        counted.append((defense._step, defense._metered))
    assert counted == [(2, 2), (2, 2)]


# -- whole runs -------------------------------------------------------------------------------------------------------


def squares(channels, count):
    """Pictures of two kinds, a square on the left or on the right of each half; tone or colour says nothing."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 2, count)
    pictures = np.zeros((count, channels, 16, 32), dtype=np.uint8)
    for picture, kind in zip(pictures, kinds, strict=True):
        picture[:] = random.integers(0, 80, (channels, 1, 1))
        for half in (0, 16):
            row, column = random.integers(0, 8), half + 8 * kind + random.integers(0, 3)
            picture[:, row : row + 5, column : column + 5] = random.integers(140, 255, (channels, 1, 1))
    return pictures, pd.Series(kinds)


def trained_on_squares(channels, count, epochs, **strength):
    federation = co.Federation.from_images(*squares(channels, count), ["left", "right"])
    model = co.train(
        federation,
        {"name": "causshield", **strength},
        seed=1,
        epochs=epochs,
        batch_size=32,
        progress=False,
        network={"family": "mnist_net", "cut": 6},
        optimizer={"learning_rate": 5e-3},
        split={"train": 0.7, "validation": 0.0, "test": 0.3},
    )
    return federation, model


def check_that_it_loads(federation, model, folder):
    model.save(folder)
    loaded = co.load(folder)
    for party in ("left", "right"):
        records = federation.records[party]
        trained, again = (each.parts[party].bottom for each in (model, loaded))
        assert torch.equal(trained.upload(records), again.upload(records))
        assert again.defense.describe() == trained.defense.describe()


def test_grey_images_are_learned_saved_and_loaded(tmp_path):
    """The whole way. A loaded model answers what the trained one did."""
    federation, model = trained_on_squares(1, 160, 12, rounds=2)
    assert model.scores["accuracy"] > 0.8  # guessing gives a half
    check_that_it_loads(federation, model, tmp_path / "model")


def test_coloured_images_are_learned_saved_and_loaded(tmp_path):
    """The whole way with the two colour networks, though too short to learn much."""
    federation, model = trained_on_squares(3, 40, 2, rounds=1, surrogate_epochs=1)
    assert np.isfinite(model.scores["loss"])
    check_that_it_loads(federation, model, tmp_path / "model")


def table():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(400, 6)), columns=[f"c{number}" for number in range(6)])
    frame["town"] = random.choice(["Bern", "Chur", "Basel"], 400)
    frame["outcome"] = np.where(frame["c0"] + frame["c3"] > 0, "ill", "well")
    return frame


PARTIES = {"clinic": [], "lab": ["c0", "c1", "c2", "town"], "insurer": ["c3", "c4", "c5"]}


def trained_on_table(defense):
    federation = co.Federation.from_frame(table(), PARTIES, label=("clinic", "outcome"))
    return co.train(
        federation,
        defense,
        seed=0,
        epochs=20,
        batch_size=64,
        progress=False,
        optimizer={"learning_rate": 5e-3},
    )


def test_tables_are_learned_without_a_graph():
    assert trained_on_table({"name": "causshield", "rounds": 2}).scores["accuracy"] > 0.8


def test_with_known_causes_uploads_hang_less_on_other_columns():
    """A given graph would have no effect. Less is not nothing: without noise in its way a decoder reads them still."""
    strength = {"rounds": 10, "learning_rate": 1e-3, "route": "persistent"}
    shielded = trained_on_table({"name": "causshield", "graph": ["c0", "c3"], **strength})
    assert shielded.scores["accuracy"] > 0.8
    assert dependence(shielded) < 0.5 * dependence(trained_on_table("none"))


def dependence(model):
    """Share of the uploads' spread that changes when columns that cause nothing are dealt out anew."""
    frame = table()
    dealt = frame.assign(**{name: frame[name].sample(frac=1, random_state=1).to_numpy() for name in ("c4", "c5")})
    first, second = (
        model.parts["insurer"].bottom.upload(
            co.Federation.from_frame(each, PARTIES, label=("clinic", "outcome")).records["insurer"]
        )
        for each in (frame, dealt)
    )
    return ((first - second).square().sum() / (first - first.mean(0)).square().sum()).item()


# -- what is refused --------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_told():
    with pytest.raises(ConfigError, match=r"causshield\.rounds: 0 is not allowed"):
        make_defense("causshield", rounds=0)
    with pytest.raises(ConfigError, match=r"causshield\.route: unknown route 'strait'.*did you mean 'straight'"):
        make_defense("causshield", route="strait")
    with pytest.raises(ConfigError, match=r"rounds_end and decay_steps need each other"):
        make_defense("causshield", rounds_end=1)
    with pytest.raises(ConfigError, match=r"causshield\.share"):
        make_defense("causshield", share=1.5)
    with pytest.raises(ConfigError, match=r"causshield\.deploy: .*a bottom that rests can't be deployed"):
        make_defense("causshield", route="separate", deploy="bottom")
    with pytest.raises(ConfigError, match=r"causshield\.mask_source: gradients that choose the mask would steer"):
        make_defense("causshield", route="separate", mask_source="grad")


@pytest.mark.parametrize(
    "graph", [3, 0.5, True, [3], ["age", None], b"age", {"age"}, {"y": 3}, {"y": "age"}, {"y": None}, {3: ["age"]}]
)
def test_what_is_no_graph_is_told_by_the_check_of_a_file(graph):
    """A party learned of it after the alignment, in a traceback; of {y: age} the letters were taken for causes."""
    with pytest.raises(ConfigError, match=r"^causshield\.graph: ") as error:
        make_defense("causshield", graph=graph)
    assert "list of names" in error.value.what and error.value.remedy


@pytest.mark.parametrize("graph", ["graph.json", ["age"], ("age",), {"y": ["age"], "age": []}])
def test_every_form_of_a_graph_is_taken_as_it_is(graph):
    assert make_defense("causshield", graph=graph).describe()["graph"] == graph


@pytest.mark.parametrize("label", [3, ["outcome"]])
def test_a_label_is_a_name(label):
    with pytest.raises(ConfigError, match=r"^causshield\.label: "):
        make_defense("causshield", graph={"outcome": ["age"]}, label=label)


def test_what_cannot_work_is_told_before_training():
    with pytest.raises(ConfigError, match="'jitter' is for images"):
        defense = shield()
        defense.prepare(nn.Linear(4, 3), torch.zeros(5, 4))
    with pytest.raises(ConfigError, match="too many for 'flat'"):
        wide = shield(dimensions="flat")
        wide.prepare(nn.Conv2d(2, 64, 1), torch.zeros(5, 2, 32, 32))
    with pytest.raises(ConfigError, match="call prepare first"):
        shield().protect(images(), images(), train=True)


def test_colour_conversion_is_loaded_only_for_colours():
    """Every start of the programme would wait for a library that tables never use."""
    code = "import sys, colonnade.defend.causshield; sys.exit('kornia' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- on a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mixed", [False, True])
def test_recorded_steps_are_the_same_steps(mixed):
    """`cuda_graph` would train another generator, or fall back in silence."""
    uploads = []
    for cuda_graph in (False, True):
        defense, bottom = shield(cuda_graph=cuda_graph, mask_source="masker"), small_bottom().cuda()
        defense.seed(0, "cuda")
        data = images(64).cuda()
        defense.prepare(bottom, data)
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            for batch in (data[:32], data[32:], data[:7]):  # the last one has another shape than what was recorded
                upload = defense.protect(batch, bottom(batch), train=True)
                uploads.append(upload.float())
        assert (defense._adaptation._recording is not None) == cuda_graph
    for eager, recorded in zip(uploads[:3], uploads[3:], strict=True):
        torch.testing.assert_close(recorded, eager, atol=0.05 if mixed else 1e-3, rtol=0.05 if mixed else 1e-3)
