"""UnSplit finds records behind a bottom that hides little, and nothing behind one that destroys them."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from colonnade.attack import Evidence, make_attack, run_attack, unsplit
from colonnade.errors import ConfigError, DataError
from colonnade.measure.reconstruct import identification_rate, skill, squared_error
from colonnade.nets import initialised
from colonnade.nets.blocks import RunningNorm


@pytest.fixture
def images():
    """Left halves of digits less their mean, so that zero, where estimates start, is the mean guess."""
    halves = torch.from_numpy(load_digits().images[:16, None, :, :4].astype(np.float32)) / 16
    return halves - halves.mean(0)


@pytest.fixture
def short(monkeypatch):
    """A search of a few steps, for tests that ask how it runs and not what it finds."""
    monkeypatch.setitem(unsplit.PRESETS, "smoke", unsplit.Preset(rounds=4, steps=10))


def near_identity(seed):
    """Four copies of the image, each a little blurred in its own way, with negative values dimmed."""
    convolution = nn.Conv2d(1, 4, 3, padding=1)
    noise = torch.randn(convolution.weight.shape, generator=torch.Generator().manual_seed(seed % 2**32))
    with torch.no_grad():
        convolution.weight.copy_(0.1 * noise)
        convolution.weight[:, :, 1, 1] += 4
        convolution.bias.zero_()
    return nn.Sequential(convolution, nn.LeakyReLU(0.5))


def one_number(seed):
    return initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 1)), seed)


@torch.no_grad()
def evidence_about(images, factory, operator=None):
    uploads = factory(99)(images)
    held = {"architecture": factory, "uploads": uploads if operator is None else operator(uploads)}
    return Evidence(tuple(images.shape[1:]), held | ({"defense_operator": operator} if operator else {}))


def found(images, guesses):
    return skill(squared_error(guesses, images).mean(), squared_error(0 * images, images).mean())


def test_a_bottom_that_hides_little_is_inverted(images):
    """An audit would call the plainest leak private."""
    guesses = run_attack(make_attack("unsplit", preset="smoke"), evidence_about(images, near_identity))
    assert found(images, guesses) > 0.6
    assert identification_rate(guesses, images) > 0.9


def test_a_bottom_that_destroys_leaves_the_mean(images):
    """An attack that invents detail would make a good protection look bad, or a guess look worse than the mean."""
    guesses = run_attack(make_attack("unsplit", preset="smoke"), evidence_about(images, one_number))
    assert abs(found(images, guesses)) < 0.05
    assert identification_rate(guesses, images) < 0.2


def without_slope_at_zero(seed):
    """Copies of the image as a ResNet begins: convolutions without bias, a batch norm, a ReLU."""

    def build():
        convolution = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        with torch.no_grad():
            convolution.weight.mul_(0.1)[:, :, 1, 1] += torch.tensor([1.0, -1.0] * 4)[:, None]
        return nn.Sequential(convolution, nn.BatchNorm2d(8), nn.ReLU())

    return initialised(build, seed)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_network_without_slope_at_zero_is_searched_too(images, mixed):
    """Every ResNet would look private: the search would end where it began, whatever was uploaded."""
    evidence = evidence_about(images, without_slope_at_zero)
    guesses = run_attack(make_attack("unsplit", preset="smoke", mixed=mixed), evidence)
    likeness = torch.cosine_similarity(guesses.flatten(1), images.flatten(1)).mean()
    assert likeness > 0.2, "blind guesses have 0, give or take .05"


def slow_loss(explained, upload, estimate):
    """One record's loss of the published recipe, number by number."""
    features = explained.flatten()
    loss = sum((a - b) ** 2 for a, b in zip(features, upload.flatten(), strict=True)) / len(features)
    channels, height, width = estimate.shape
    down = across = square = 0.0
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                square += estimate[c, y, x] ** 2
                down += (estimate[c, y + 1, x] - estimate[c, y, x]) ** 2 if y + 1 < height else 0
                across += (estimate[c, y, x + 1] - estimate[c, y, x]) ** 2 if x + 1 < width else 0
    variation = down / (channels * (height - 1) * width) + across / (channels * height * (width - 1))
    return loss + 0.1 * variation + 1.0 * square / estimate.size


def test_the_batch_has_the_published_loss_of_each_record():
    """Numbers beside published ones would come from another attack."""
    random = np.random.default_rng(0)
    explained, uploads = random.normal(size=(3, 2, 4, 5)), random.normal(size=(3, 2, 4, 5))
    estimate = random.normal(size=(3, 2, 5, 4))
    batch = unsplit.estimate_losses(*map(torch.from_numpy, (explained, uploads, estimate)))
    slow = [slow_loss(*one) for one in zip(explained, uploads, estimate, strict=True)]
    assert batch.tolist() == pytest.approx(slow)


def test_columns_have_no_neighbours_and_a_line_of_pixels_has_them_on_one_side():
    assert unsplit.total_variation(torch.rand(3, 7)).tolist() == [0, 0, 0]
    assert unsplit.total_variation(torch.tensor([[[[0.0, 1.0, 3.0]]]])).tolist() == [2.5]


def test_together_as_one_by_one_where_there_is_no_clone_to_share(images, monkeypatch):
    """The batched attack would be a weaker one: each record would move less the more there are."""
    monkeypatch.setattr(unsplit, "_PATIENCE", 10**9)

    def weightless(seed):
        return nn.Sequential(nn.AvgPool2d((2, 1)), nn.LeakyReLU(0.5))

    evidence = evidence_about(images[:4], weightless)
    together = run_attack(make_attack("unsplit", preset="smoke"), evidence)
    alone = run_attack(make_attack("unsplit", preset="smoke", images_at_once=1), evidence)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    assert together.abs().max() > 0.1


def test_one_at_a_time_hands_the_clone_on(images, short):
    """The published attack would start each record from nothing, which is not what was published."""
    made = []

    def factory(seed):
        made.append(near_identity(seed))
        return made[-1]

    evidence = evidence_about(images[:3], factory)
    attack = make_attack("unsplit", preset="smoke", images_at_once=2)  # in groups of 2 and 1
    guesses = run_attack(attack, evidence)
    assert len(made) == 2  # the victim's, and one clone for all
    first = make_attack("unsplit", preset="smoke")
    first.fit(evidence)
    torch.testing.assert_close(guesses[:2], first.reconstruct(evidence.uploads[:2]))
    torch.testing.assert_close(guesses[2:], first.reconstruct(evidence.uploads[2:]))
    fresh = make_attack("unsplit", preset="smoke")
    fresh.fit(evidence)
    assert not torch.allclose(guesses[2:], fresh.reconstruct(evidence.uploads[2:]), atol=1e-4)


def test_the_adaptive_attack_sees_through_a_public_operator(images):
    """An audit would credit a defense that only needs to be known."""
    evidence = evidence_about(images, near_identity, operator=torch.neg)
    adaptive = make_attack("unsplit", preset="smoke", adaptive=True)
    assert found(images, run_attack(adaptive, evidence)) > 0.6
    assert found(images, run_attack(make_attack("unsplit", preset="smoke"), evidence)) < 0


def test_adaptive_is_named_beside_the_result_and_needs_the_operator(images):
    described = make_attack("unsplit", adaptive=True).describe()
    assert described["strength"] == "adaptive"
    assert described["knowledge"] == ["architecture", "defense_operator", "uploads"]
    plain = make_attack("unsplit").describe()
    assert plain["strength"] == "published" and plain["knowledge"] == ["architecture", "uploads"]
    with pytest.raises(ConfigError, match="needs defense_operator"):
        run_attack(make_attack("unsplit", adaptive=True), evidence_about(images, near_identity))


def test_batch_normalisation_of_the_clone_looks_at_the_batch_alone(images):
    """Running statistics of estimates that were never records would spoil the clone."""

    def normalised(seed):
        return initialised(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), seed)

    attack = make_attack("unsplit", preset="smoke")
    attack.fit(evidence_about(images, normalised))
    norm = attack.clone[1]
    assert norm.training and norm.running_mean is None and not norm.track_running_stats
    output = norm(torch.randn(8, 2, 3, 3) + 5).detach()
    assert output.mean().item() == pytest.approx(0, abs=1e-5)


def test_norms_that_remember_become_norms_of_the_batch_too(images):
    """Keystone on tables has one: the attack stopped there, and our own defense could not be tested."""

    def remembering(seed):
        return initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 6), RunningNorm(6, 0.05)), seed)

    guesses = run_attack(make_attack("unsplit", preset="smoke"), evidence_about(images, remembering))
    assert guesses.shape == images.shape and torch.isfinite(guesses).all()
    clone = unsplit.by_batch_alone(remembering(0))
    numbers = clone(images)
    torch.testing.assert_close(numbers.mean(0), torch.zeros(6), atol=1e-5, rtol=0)


def test_a_single_vector_can_not_be_normalised(images):
    def normalised(seed):
        return initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 2), nn.BatchNorm1d(2)), seed)

    with pytest.raises(ConfigError, match="images_at_once"):
        run_attack(make_attack("unsplit", images_at_once=1), evidence_about(images, normalised))


def test_the_search_ends_when_nothing_is_gained(monkeypatch):
    """Paper-sized searches would burn hours on what was found in minutes."""
    monkeypatch.setattr(unsplit, "APART", 0)
    calls = []

    class Counting(nn.Module):
        def forward(self, x):
            calls.append(len(x))
            return x

    nothing = torch.zeros(2, 3)
    guesses = run_attack(make_attack("unsplit", preset="paper"), evidence_about(nothing, lambda seed: Counting()))
    assert torch.equal(guesses, nothing)
    assert len(calls) == 1 + 21 * (100 + 1)  # the victim's; the first round's error is a gain over none


def test_estimates_start_where_told(monkeypatch):
    """Starting at grey, as published, could not be asked for."""
    monkeypatch.setitem(unsplit.PRESETS, "smoke", unsplit.Preset(rounds=0, steps=0))
    evidence = Evidence((2, 3, 3), {"uploads": torch.zeros(4, 5), "architecture": lambda seed: nn.Identity()})
    attack = make_attack("unsplit", preset="smoke", start=[0.25, -1.0])
    guesses = run_attack(attack, evidence)
    assert guesses.shape == (4, 2, 3, 3)
    start = torch.tensor([0.25, -1.0]).reshape(2, 1, 1)
    assert 0 < (guesses - start).std() < 2 * unsplit.APART and (guesses - start).abs().max() < 5 * unsplit.APART
    assert attack.describe()["start"] == [0.25, -1.0] and make_attack("unsplit").describe()["start"] == 0
    with pytest.raises(ConfigError, match="give one number, or 2"):
        run_attack(make_attack("unsplit", start=[1.0, 2.0, 3.0]), evidence)


def test_same_seed_same_guess_another_seed_another(images, short):
    evidence = evidence_about(images[:2], near_identity)

    def guess(seed):
        attack = make_attack("unsplit", preset="smoke")
        attack.seed(seed)
        torch.rand(1)  # the global stream moves in between and must not matter
        return run_attack(attack, evidence)

    assert torch.equal(guess(1), guess(1))
    assert not torch.equal(guess(1), guess(2))


def test_a_clone_of_another_shape_is_refused(images):
    """Shapes that broadcast would be fitted in silence."""
    evidence = Evidence((1, 8, 4), {"uploads": torch.zeros(16, 3), "architecture": one_number})
    with pytest.raises(DataError, match=r"\(1,\) of a record, but \(3,\) were uploaded"):
        run_attack(make_attack("unsplit", preset="smoke"), evidence)


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        make_attack("unsplit", preset="papr")
    with pytest.raises(ConfigError, match="unknown preset"):
        make_attack("unsplit", preset=["paper"])
    flags = ({"adaptive": "nope"}, {"mixed": "maybe"})
    for wrong in ({"images_at_once": 0}, {"start": float("nan")}, {"start": [0.0, "grey"]}, *flags):
        with pytest.raises(ConfigError, match="is not allowed"):
            make_attack("unsplit", **wrong)
    with pytest.raises(ConfigError, match="call fit first"):
        make_attack("unsplit").reconstruct(torch.zeros(1, 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_it_searches_on_the_gpu_too(images):
    attack = make_attack("unsplit", preset="smoke")
    attack.seed(0, "cuda")
    guesses = run_attack(attack, evidence_about(images, near_identity))
    assert guesses.device.type == "cpu"
    assert found(images, guesses) > 0.6
