"""Equations 15-19: scores, sampled masks, and the losses that sharpen them."""

import pytest
import torch

from colonnade.defend.causshield.masker import TEMPERATURE, Masker, gumbel, sample_upper, score_loss


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def test_exactly_so_many_dimensions_are_upper():
    """Half of the representation would be called upper, or all of it (Eq. 16)."""
    mask = sample_upper(torch.randn(50, 12, generator=stream(1)), 5, stream())
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert (mask.sum(1) == 5).all()
    assert sample_upper(torch.zeros(3, 4), 0, stream()).sum() == 0


def test_the_mask_follows_the_scores():
    """The released sampler's mask is nearly independent of the scores (correlation .007)."""
    logits = torch.randn(64, 512, generator=stream(2))
    mask = sample_upper(logits, 256, stream())
    assert torch.corrcoef(torch.stack([mask.flatten(), logits.flatten()]))[0, 1] > 0.4
    sure = torch.tensor([[50.0, -50.0, 50.0, -50.0]])
    assert sample_upper(sure, 2, stream()).tolist() == [[1, 0, 1, 0]]


def test_the_gradient_goes_straight_through():
    """A hard mask without a gradient would teach the masker nothing about where it cuts."""
    logits = torch.randn(6, 8, generator=stream(3)).requires_grad_()
    weights = torch.randn(6, 8, generator=stream(4))
    (sample_upper(logits, 4, stream(5)) * weights).sum().backward()
    soft = torch.sigmoid((logits.detach() + gumbel(logits.shape, stream(5))) / TEMPERATURE)
    torch.testing.assert_close(logits.grad, weights * soft * (1 - soft) / TEMPERATURE)


def test_gumbel_noise_is_gumbel():
    """Its mean is Euler's constant and its variance pi^2 / 6."""
    noise = gumbel((200_000,), stream())
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(1.6449, rel=0.02)


def test_score_losses_are_the_published_sums_but_for_a_constant():
    """Eq. 17 and 18, written out over records, surrogates and dimensions."""
    z, z_hat = torch.rand(2, 4, 6, generator=stream(6))
    upper, upper_hat = torch.randint(0, 2, (2, 4, 6), generator=stream(7)).float()
    published = 0.0
    for i in range(4):
        for j in range(6):
            published += (1 - z[i, j]) ** 2 * upper[i, j] + (1 - z_hat[i, j]) ** 2 * upper_hat[i, j]
            published += z[i, j] ** 2 * (1 - upper[i, j]) + z_hat[i, j] ** 2 * (1 - upper_hat[i, j])
    ours = score_loss(torch.cat([z, z_hat]), torch.cat([upper, upper_hat]))
    assert ours.item() == pytest.approx(published.item() / (2 * 4 * 6), rel=1e-5)


@pytest.mark.parametrize("shape", [(10,), (6, 4, 3), (6, 1, 1)])
def test_every_dimension_gets_its_score_and_a_record_its_own(shape):
    """Scores would depend on who else is in the batch, and a map's channels would not be told apart."""
    masker = Masker(shape, 0.5, seed=0, device=torch.device("cpu"))
    records = torch.randn(5, *shape, generator=stream())
    logits = masker.network(records)
    assert logits.shape == (5, shape[0]) and masker.count == shape[0] // 2
    torch.testing.assert_close(masker.network(records[:2]), logits[:2], atol=1e-5, rtol=0)


def test_the_generators_part_pushes_all_scores_up():
    """Eq. 19, left: the mean of (1 - z)^2 over records and dimensions."""
    masker = Masker((10,), 0.5, seed=0, device=torch.device("cpu"))
    raw = torch.randn(5, 10, generator=stream())
    slow = sum((1 - z) ** 2 for z in torch.sigmoid(masker.network(raw)).flatten().tolist()) / 50
    assert masker.shortfall(raw).item() == pytest.approx(slow, rel=1e-5)


def test_the_masker_only_sharpens_its_own_first_order():
    """What to expect of it: half the scores go to 1, half to 0, on data that have no task at all."""
    masker = Masker((16,), 0.5, seed=0, device=torch.device("cpu"))
    generator = stream()
    first = masker.network(torch.randn(200, 16, generator=generator)).mean(0)
    for _ in range(300):
        raw = torch.randn(64, 16, generator=generator)
        masker.learn(raw, raw, generator, None)
    last = torch.sigmoid(masker.network(torch.randn(200, 16, generator=generator))).mean(0)
    assert ((last > 0.9) | (last < 0.1)).float().mean() > 0.8
    assert last[first.topk(8).indices].mean() > 0.8


def test_given_upper_dimensions_are_learned():
    """`mask_source="grad"` would have no effect."""
    masker = Masker((8,), 0.5, seed=0, device=torch.device("cpu"))
    upper = torch.tensor([1.0, 0, 0, 1, 0, 1, 1, 0])
    generator = stream()
    for _ in range(300):
        raw = torch.randn(64, 8, generator=generator)
        masker.learn(raw, raw, generator, upper)
    scores = torch.sigmoid(masker.network(torch.randn(50, 8, generator=generator))).mean(0)
    assert torch.equal((scores > 0.5).float(), upper)


def test_a_resumed_masker_goes_on_as_it_would_have():
    """After a crash the run would end with other weights."""
    raw = torch.randn(8, 6, generator=stream())
    first, second = (Masker((6,), 0.5, seed=seed, device=torch.device("cpu")) for seed in (0, 1))
    first.learn(raw, raw, stream(1), None)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    first.learn(raw, raw, stream(2), None)
    second.learn(raw, raw, stream(2), None)
    assert all(torch.equal(a, b) for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True))
