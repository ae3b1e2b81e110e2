"""The oracle reads undefended uploads, and does not read noise."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn

from colonnade.attack import Evidence, make_attack, run_attack
from colonnade.errors import ConfigError, DataError
from colonnade.measure.baseline import mean_record
from colonnade.measure.image import mse
from colonnade.measure.reconstruct import identification_rate, skill, squared_error
from colonnade.nets import build_bottom, initialised


def left_halves():
    images = load_digits().images[:, None, :, :4] / 16
    return torch.from_numpy(images.astype(np.float32))


def half_the_columns():
    columns = load_breast_cancer().data[:, :15]
    return torch.from_numpy(((columns - columns.mean(0)) / columns.std(0)).astype(np.float32))


@torch.no_grad()
def evidence_about(records, bottom, private, sigma=0.0):
    """Let a bottom and plain noise upload all records; the attacker knows those after the first `private`."""
    h = bottom(records)
    uploads = h + sigma * torch.randn(h.shape, generator=torch.Generator().manual_seed(0))
    return Evidence(
        tuple(records.shape[1:]),
        {"uploads": uploads[:private], "auxiliary_uploads": uploads[private:], "auxiliary_records": records[private:]},
    )


def image_skill(sigma, bottom, epochs=20):
    records, private = left_halves(), 400
    evidence = evidence_about(records, bottom, private, sigma)
    guesses = run_attack(make_attack("decoder", epochs=epochs), evidence)
    truths = records[:private]
    baseline = mse(mean_record(records[private:]), truths).mean()
    return skill(mse(guesses, truths).mean(), baseline), identification_rate(guesses, truths)


def conv_bottom():
    def build():
        stride = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), stride, nn.ReLU())

    return initialised(build, seed=0)


def test_undefended_feature_maps_show_the_image():
    """The audit would call plain split training private."""
    reached, identified = image_skill(0.0, conv_bottom())
    assert reached > 0.8
    assert identified > 0.9


def test_undefended_vectors_show_the_image():
    bottom = build_bottom("mlp", (1, 8, 4), cut=2, hidden=(32, 8), seed=0)
    reached, _ = image_skill(0.0, bottom, epochs=10)
    assert reached > 0.5


def test_huge_noise_leaves_the_mean_guess():
    """Worse than guessing would be sold as protection: the oracle never falls far below the mean image."""
    reached, identified = image_skill(100.0, conv_bottom(), epochs=5)
    assert -0.05 < reached < 0.1
    assert identified < 0.05


def test_undefended_columns_are_read():
    records, private = half_the_columns(), 150
    bottom = build_bottom("mlp", (15,), hidden=(32, 16, 8), seed=0)
    guesses = run_attack(make_attack("decoder", epochs=60, batch_size=64), evidence_about(records, bottom, private))
    truths = records[:private]
    baseline = squared_error(mean_record(records[private:]), truths).mean()
    assert guesses.shape == truths.shape
    assert skill(squared_error(guesses, truths).mean(), baseline) > 0.5


def test_same_seed_same_guess_another_seed_another():
    """An audit would not repeat."""
    evidence = evidence_about(left_halves()[:300], conv_bottom(), 100)

    def guess(seed):
        attack = make_attack("decoder", epochs=1)
        attack.seed(seed)
        torch.rand(1)  # the global stream moves in between and must not matter
        return run_attack(attack, evidence)

    assert torch.equal(guess(1), guess(1))
    assert not torch.equal(guess(1), guess(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_oracle_reads_on_the_gpu_too():
    evidence = evidence_about(left_halves(), conv_bottom(), 400)
    attack = make_attack("decoder", epochs=5)
    attack.seed(0, "cuda")
    guesses = run_attack(attack, evidence)
    truths = left_halves()[:400]
    assert guesses.device.type == "cpu"
    assert skill(mse(guesses, truths).mean(), mse(mean_record(left_halves()[400:]), truths).mean()) > 0.5


def test_a_channel_that_never_changes_does_no_harm():
    """A dead ReLU would turn every guess into NaN."""
    records = left_halves()[:200]
    uploads = torch.cat([records, torch.zeros_like(records)], dim=1)
    held = {"uploads": uploads[:50], "auxiliary_uploads": uploads[50:], "auxiliary_records": records[50:]}
    assert run_attack(make_attack("decoder", epochs=1), Evidence((1, 8, 4), held)).isfinite().all()


def test_too_few_or_unpaired_records_are_refused():
    few = {"uploads": torch.zeros(1, 2), "auxiliary_uploads": torch.zeros(5, 2), "auxiliary_records": torch.zeros(5, 3)}
    with pytest.raises(DataError, match="at least 20 records"):
        run_attack(make_attack("decoder"), Evidence((3,), few))
    few |= {"auxiliary_uploads": torch.zeros(30, 2), "auxiliary_records": torch.zeros(31, 3)}
    with pytest.raises(DataError, match="31 auxiliary records with 30 uploads"):
        run_attack(make_attack("decoder"), Evidence((3,), few))


def test_guessing_before_learning_is_refused():
    with pytest.raises(ConfigError, match="call fit first"):
        make_attack("decoder").reconstruct(torch.zeros(1, 2))


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 1}, {"learning_rate": -1.0}, {"epochs": 1.5}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match="is not allowed"):
        make_attack("decoder", **wrong)
