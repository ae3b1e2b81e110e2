"""The linear oracle: exact where the bottom is linear, the mean where uploads tell nothing."""

import numpy as np
import pytest
import torch

from colonnade.attack import Evidence, make_attack, ridge, run_attack
from colonnade.errors import ConfigError, DataError
from colonnade.measure.reconstruct import skill, squared_error


def evidence_about(records, uploads, private=50):
    held = {
        "uploads": uploads[:private],
        "auxiliary_uploads": uploads[private:],
        "auxiliary_records": records[private:],
    }
    return Evidence(tuple(records.shape[1:]), held)


@pytest.fixture
def records():
    return torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (250, 1, 3, 4)).astype(np.float32))


def mixed_to(features, records, seed=1):
    """Send records through a random linear map, off centre and at another scale."""
    mixing = np.random.default_rng(seed).normal(size=(12, features)).astype(np.float32)
    return 7 + 100 * records.flatten(1) @ torch.from_numpy(mixing)


@pytest.mark.parametrize("features", [12, 40, 600])  # the last in kernel form
def test_a_linear_map_is_undone(features, records):
    """A linear bottom is no protection at all, and an audit would not say so."""
    uploads = mixed_to(features, records).reshape(250, 2, features // 2, 1)
    guesses = run_attack(make_attack("ridge"), evidence_about(records, uploads))
    assert guesses.shape == (50, 1, 3, 4)
    truths = records[:50].clamp(records[50:].min(), records[50:].max())
    torch.testing.assert_close(guesses, truths, rtol=0, atol=1e-4)


def test_both_forms_are_the_textbook_one():
    """Weights would depend on whether there are more features than records."""
    random = torch.Generator().manual_seed(0)
    for records, features in ((30, 8), (8, 30)):
        uploads = torch.randn(records, features, generator=random, dtype=torch.float64)
        targets = torch.randn(records, 3, generator=random, dtype=torch.float64)
        for penalty in (1e-3, 1.0):
            gram = uploads.T @ uploads + records * penalty * torch.eye(features, dtype=torch.float64)
            expected = torch.linalg.solve(gram, uploads.T @ targets)
            torch.testing.assert_close(ridge.Solutions.of(uploads, targets).weights(penalty), expected)


def test_uploads_that_tell_nothing_give_the_mean(records):
    """Worse than guessing would be sold as protection."""
    noise = torch.randn(250, 30, generator=torch.Generator().manual_seed(3))
    guesses = run_attack(make_attack("ridge"), evidence_about(records, noise))
    mean_error = squared_error(records[50:].mean(0), records[:50]).mean()
    assert -0.05 < skill(squared_error(guesses, records[:50]).mean(), mean_error) < 0.05


def test_under_noise_it_finds_what_is_left(records):
    """The penalty would be chosen for uploads without noise, and the guess drown."""
    clean = mixed_to(300, records) / 100
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(3))
    attack = make_attack("ridge")
    guesses = run_attack(attack, evidence_about(records, clean + 5 * noise))
    mean_error = squared_error(records[50:].mean(0), records[:50]).mean()
    reached = skill(squared_error(guesses, records[:50]).mean(), mean_error)
    assert attack.penalty > 1e-3
    exact_fit = _without_penalty(evidence_about(records, clean + 5 * noise))
    assert reached > 0.5
    assert reached > skill(squared_error(exact_fit, records[:50]).mean(), mean_error) + 0.05


def _without_penalty(evidence):
    uploads, records = evidence.auxiliary_uploads.double(), evidence.auxiliary_records.double().flatten(1)
    weights = torch.linalg.lstsq(uploads - uploads.mean(0), records - records.mean(0), driver="gelsd").solution
    guesses = records.mean(0) + (evidence.uploads.double() - uploads.mean(0)) @ weights
    return guesses.reshape(-1, *evidence.input_shape)


def test_repeated_uploads_are_one_long_upload(records):
    """Noise that averages out over uploads of one record would go unseen."""
    clean = mixed_to(12, records) / 100
    noise = 5 * torch.randn(250, 10, 12, generator=torch.Generator().manual_seed(3))
    mean_error = squared_error(records[50:].mean(0), records[:50]).mean()

    def reached(uploads):
        guesses = run_attack(make_attack("ridge"), evidence_about(records, uploads))
        return skill(squared_error(guesses, records[:50]).mean(), mean_error)

    assert reached(clean[:, None] + noise) > reached(clean + noise[:, 0]) + 0.2


def test_uploads_that_never_change_do_no_harm(records):
    guesses = run_attack(make_attack("ridge"), evidence_about(records, torch.ones(250, 5)))
    torch.testing.assert_close(guesses, records[50:].mean(0).expand(50, -1, -1, -1))


def test_same_seed_same_guess(records):
    uploads = mixed_to(20, records) + torch.randn(250, 20, generator=torch.Generator().manual_seed(3))
    evidence = evidence_about(records, uploads)
    assert torch.equal(run_attack(make_attack("ridge"), evidence), run_attack(make_attack("ridge"), evidence))


def test_too_few_pairs_and_guessing_before_learning_are_refused(records):
    with pytest.raises(DataError, match=r"attack 'ridge'.*at least 20 records"):
        run_attack(make_attack("ridge"), evidence_about(records[:60], torch.zeros(60, 2)))
    with pytest.raises(ConfigError, match="call fit first"):
        make_attack("ridge").reconstruct(torch.zeros(1, 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_linear_map_is_undone_on_the_gpu_too(records):
    attack = make_attack("ridge")
    attack.seed(0, "cuda")
    guesses = run_attack(attack, evidence_about(records, mixed_to(600, records)))
    truths = records[:50].clamp(records[50:].min(), records[50:].max())
    torch.testing.assert_close(guesses, truths, rtol=0, atol=1e-4)
