"""The oracle reads undefended uploads, and does not read noise."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn

from colonnade.attack import Decoder, Evidence, make_attack, run_attack
from colonnade.attack.decoder import deep_decoder
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


def image_skill(sigma, bottom, epochs=8):
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
@pytest.mark.parametrize(("preset", "mixed"), [("weak", False), ("strong", True)])
def test_the_oracle_reads_on_the_gpu_too(preset, mixed):
    evidence = evidence_about(left_halves(), conv_bottom(), 400)
    attack = make_attack("decoder", preset=preset, epochs=5, mixed=mixed)
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


def curved_columns(count):
    """Twelve columns that six hidden causes make, behind a bottom that is not linear."""
    random = np.random.default_rng(0)
    columns = random.normal(size=(count, 6)) @ random.normal(size=(6, 12))
    records = torch.from_numpy((columns / columns.std(0)).astype(np.float32))
    return records, build_bottom("mlp", (12,), hidden=(24, 12, 8), seed=0)


def column_skill(preset, evidence, truths, **parameters):
    guesses = run_attack(make_attack("decoder", preset=preset, **parameters), evidence)
    baseline = squared_error(mean_record(evidence.auxiliary_records), truths).mean()
    return skill(squared_error(guesses, truths).mean(), baseline)


@torch.no_grad()
def repeated_evidence(records, bottom, private, sigma, repeats):
    """Upload every record `repeats` times, with fresh noise each time."""
    h = bottom(records)[:, None].expand(-1, repeats, -1)
    uploads = h + sigma * h.std() * torch.randn(h.shape, generator=torch.Generator().manual_seed(0))
    held = {
        "uploads": uploads[:private],
        "auxiliary_uploads": uploads[private:],
        "auxiliary_records": records[private:],
    }
    return Evidence(tuple(records.shape[1:]), held)


def one_each(evidence):
    """Keep the first upload of each record."""
    firsts = {name: evidence.held[name][:, 0] for name in ("uploads", "auxiliary_uploads")}
    return Evidence(evidence.input_shape, {**evidence.held, **firsts})


def test_the_strong_oracle_reads_more_than_the_weak_one():
    """A defense would be trusted because its auditor was weak."""
    records, bottom = curved_columns(4200)
    evidence = evidence_about(records, bottom, private=200)
    weak, strong = (column_skill(preset, evidence, records[:200], epochs=6) for preset in ("weak", "strong"))
    assert strong > weak + 0.05


def test_the_repeated_oracle_reads_through_fresh_noise():
    """Noise would be trusted because nobody looked twice."""
    records, bottom = curved_columns(2200)
    evidence = repeated_evidence(records, bottom, private=200, sigma=1.0, repeats=8)
    strong = column_skill("strong", one_each(evidence), records[:200], epochs=6)
    assert column_skill("repeated", evidence, records[:200], epochs=6) > strong + 0.1


def test_repeats_are_averaged_at_attack_time_whatever_their_number():
    records, bottom = curved_columns(100)
    evidence = repeated_evidence(records, bottom, private=20, sigma=1.0, repeats=4)
    attack = make_attack("decoder", preset="repeated", epochs=1)
    attack.fit(evidence)
    twice = torch.cat([evidence.uploads, evidence.uploads], dim=1)
    torch.testing.assert_close(attack.reconstruct(twice), attack.reconstruct(evidence.uploads))
    assert attack.takes_repeats and not make_attack("decoder", preset="strong").takes_repeats


def test_repeats_of_feature_maps_are_read_by_residual_blocks():
    records = left_halves()[:60]
    with torch.no_grad():
        uploads = conv_bottom()(records)[:, None].expand(-1, 3, -1, -1, -1)
    held = {"uploads": uploads[:20], "auxiliary_uploads": uploads[20:], "auxiliary_records": records[20:]}
    attack = make_attack("decoder", preset="repeated", epochs=1)
    assert run_attack(attack, Evidence((1, 8, 4), held)).shape == (20, 1, 8, 4)


def test_uploads_without_repeats_are_refused_by_the_oracle_that_averages_them():
    """The channels of a map would be averaged in silence."""
    evidence = evidence_about(left_halves()[:60], conv_bottom(), 20)
    with pytest.raises(DataError, match="do not show a record several times"):
        run_attack(make_attack("decoder", preset="repeated"), evidence)


@pytest.mark.parametrize("upload", [(16, 4, 2), (9,)])
@pytest.mark.parametrize("record", [(1, 8, 4), (5,)])
def test_the_deep_decoder_starts_at_the_mean_record(upload, record):
    """Where uploads tell nothing, the guess would be worse than the mean."""
    network = deep_decoder(upload, record, seed=0)
    assert torch.equal(network(torch.randn(3, *upload)), torch.zeros(3, *record))


def test_the_weak_oracle_learns_from_2000_pairs_and_the_strong_one_from_all(monkeypatch):
    """A table would name one strength and show another."""
    seen = {}

    def remember(attack, network, train, held_back):
        seen[attack.preset] = len(train[0]) + len(held_back[0])
        return 0.0

    monkeypatch.setattr(Decoder, "_train", remember)
    held = {"auxiliary_uploads": torch.rand(2100, 3), "auxiliary_records": torch.rand(2100, 2)}
    for preset in ("weak", "strong"):
        make_attack("decoder", preset=preset).fit(Evidence((2,), held))
    assert seen == {"weak": 2000, "strong": 2100}


def test_the_description_names_the_preset_and_its_numbers():
    described = make_attack("decoder", preset="strong").describe()
    assert (described["preset"], described["epochs"], described["mixed"]) == ("strong", 60, False)
    with pytest.raises(ConfigError, match="did you mean 'strong'"):
        make_attack("decoder", preset="stong")


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


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 1}, {"learning_rate": -1.0}, {"epochs": 1.5}, {"mixed": "nope"}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match="is not allowed"):
        make_attack("decoder", **wrong)
