"""Equations 11-14, each against a slow version that writes the formula out."""

import math

import numpy as np
import pytest
import torch

from colonnade.defend.causshield.decomposition import as_samples, correlation, decomposition_loss


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(20, 5, generator=generator)
    mixing = torch.randn(5, 5, generator=generator)
    return raw, 0.7 * raw + 0.3 * raw @ mixing + 0.2 * torch.randn(20, 5, generator=generator)


def slow_correlation(raw, altered):
    found = torch.zeros(raw.shape[1], altered.shape[1])
    for j in range(raw.shape[1]):
        for k in range(altered.shape[1]):
            a, b = raw[:, j] - raw[:, j].mean(), altered[:, k] - altered[:, k].mean()
            found[j, k] = (a * b).sum() / (a.norm() * b.norm())
    return found


def test_correlations_are_those_of_every_pair_of_dimensions(pair):
    """The generator would learn to keep apart or together what is not (Eq. 13)."""
    torch.testing.assert_close(correlation(*pair), slow_correlation(*pair), atol=2e-5, rtol=0)
    joint = np.corrcoef(pair[0].T, pair[1].T)[:5, 5:]
    np.testing.assert_allclose(correlation(*pair), joint, atol=2e-5)


def test_the_loss_is_the_published_sum_and_cirls_mean(pair):
    """Eq. 14, divided by the number of dimensions; and the normalised form that does not drown the diagonal."""
    matrix = slow_correlation(*pair)
    on, off, published = [], [], 0.0
    for j in range(5):
        for k in range(5):
            wanted = 1.0 if j == k else 0.0
            published += 0.5 * (matrix[j, k].item() - wanted) ** 2
            (on if j == k else off).append((matrix[j, k].item() - wanted) ** 2)
    assert decomposition_loss(*pair, "frobenius").item() == pytest.approx(published / 5, abs=1e-4)
    assert decomposition_loss(*pair, "cirl").item() == pytest.approx(np.mean(on) + 0.005 * np.mean(off), abs=1e-4)


@pytest.mark.parametrize("mode", ["cirl", "frobenius"])
def test_scale_and_shift_of_a_dimension_do_not_count(pair, mode):
    """A generator could please the loss by growing or shrinking its output."""
    raw, altered = pair
    scaled = raw * torch.tensor([1.0, 10.0, 0.3, 2.0, 5.0]) + torch.arange(5)
    loss = decomposition_loss(raw, altered, mode).item()
    assert decomposition_loss(scaled, 3 * altered - 1, mode).item() == pytest.approx(loss, abs=1e-4)


def test_fewer_samples_than_dimensions_leave_a_floor():
    """Somebody would wait for the published loss to reach zero: its norm is J - B + 1 at least."""
    raw, altered = (torch.randn(8, 30, generator=torch.Generator().manual_seed(s)).requires_grad_() for s in (1, 2))
    optimizer = torch.optim.Adam([raw, altered], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        loss = decomposition_loss(raw, altered, "frobenius")
        loss.backward()
        optimizer.step()
    floor = 0.5 * (30 - 8 + 1) / 30
    assert floor - 1e-3 <= loss.item() < 1.1 * floor


def test_a_channel_is_a_dimension_and_a_position_a_sample():
    """Position and channel mixed up, the loss would compare pixels of different places."""
    maps = torch.randn(4, 3, 2, 5, generator=torch.Generator().manual_seed(2))
    by_hand = sorted([maps[n, :, row, column].tolist() for n in range(4) for row in range(2) for column in range(5)])
    assert sorted(as_samples(maps, "local").tolist()) == by_hand
    averages = [[maps[n, channel].mean().item() for channel in range(3)] for n in range(4)]
    np.testing.assert_allclose(as_samples(maps, "gap"), averages, atol=1e-6)
    assert torch.equal(as_samples(maps, "flat"), maps.reshape(4, 30))
    vectors = maps[:, :, 0, 0]
    assert all(torch.equal(as_samples(vectors, way), vectors) for way in ("local", "gap", "flat"))


@pytest.mark.parametrize("mode", ["cirl", "frobenius"])
def test_a_dead_dimension_breaks_nothing(mode):
    """One ReLU that never fires would turn all weights into NaN."""
    raw = torch.randn(16, 3, generator=torch.Generator().manual_seed(3))
    raw[:, 1] = 0
    raw.requires_grad_()
    loss = decomposition_loss(raw, raw.detach(), mode)
    loss.backward()
    assert math.isfinite(loss.item()) and torch.isfinite(raw.grad).all()
    assert decomposition_loss(raw[:, :1], raw[:, :1], mode).item() == pytest.approx(0, abs=1e-4)
