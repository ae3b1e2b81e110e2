"""Noise for uploads: of the right law, and remembered where it must be."""

import pytest
import torch
from scipy import stats

from colonnade.defend.noise import NoiseSource


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def stream(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("memoise", [False, True])
@pytest.mark.parametrize(("kind", "law"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_noise_follows_its_law(kind, law, memoise):
    """A guarantee is computed for one law and would be broken by another."""
    noise = NoiseSource(kind, memoise).draw(normal(0, 50, 6), torch.zeros(50, 8, 5, 10), stream(1))
    assert noise.shape == (50, 8, 5, 10)
    assert stats.kstest(noise.flatten().numpy(), law.cdf).pvalue > 0.01
    # Entries of one record, and one entry of all records, are independent of each other.
    flat = noise.flatten(1)
    assert abs(stats.pearsonr(flat[:, :-1].flatten(), flat[:, 1:].flatten()).statistic) < 0.03
    assert abs(stats.pearsonr(flat[:-1].flatten(), flat[1:].flatten()).statistic) < 0.03


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_record_gets_the_same_noise_whenever_and_with_whomever_it_comes(kind):
    """Averaging the uploads of all epochs would take the noise off."""
    source, generator = NoiseSource(kind, memoise=True), stream(0)
    x, like = normal(0, 10, 3, 4, 4), torch.zeros(10, 20)
    first = source.draw(x, like, generator)
    order = torch.tensor([7, 2, 9])
    assert torch.equal(source.draw(x[order], like[order], generator), first[order])
    assert len({tuple(row.tolist()) for row in first}) == 10
    changed = x.clone()
    changed[0, 0, 0, 0] += 1e-6
    assert not torch.equal(source.draw(changed, like, generator)[0], first[0])


def test_averaging_helps_against_fresh_noise_only():
    """The reason for memoising would be gone."""
    x, like = normal(0, 40, 6), torch.zeros(40, 50)
    left = {}
    for memoise in (False, True):
        source, generator = NoiseSource("gaussian", memoise), stream(0)
        left[memoise] = torch.stack([source.draw(x, like, generator) for _ in range(100)]).mean(0).std().item()
    assert left[False] == pytest.approx(0.1, rel=0.1)
    assert left[True] == pytest.approx(1, rel=0.1)


def test_the_key_decides_and_survives_a_checkpoint():
    """A loaded model would add other noise to the same records; or two parties the same to equal records."""
    x, like = normal(0, 5, 4), torch.zeros(5, 8)
    source = NoiseSource("gaussian", memoise=True)
    assert source.state_dict() == {}
    noise = source.draw(x, like, stream(0))
    assert not torch.equal(NoiseSource("gaussian", memoise=True).draw(x, like, stream(1)), noise)
    loaded = NoiseSource("gaussian", memoise=True)
    loaded.load_state_dict(source.state_dict())
    assert torch.equal(loaded.draw(x, like, stream(99)), noise)
    source.renew()
    assert not torch.equal(source.draw(x, like, stream(2)), noise)


def test_noise_takes_the_type_of_the_representation():
    """Mixed precision would send float32 and double the bytes."""
    x = normal(0, 2, 3)
    for memoise in (False, True):
        noise = NoiseSource("laplace", memoise).draw(x, torch.zeros(2, 4, dtype=torch.bfloat16), stream(0))
        assert noise.dtype == torch.bfloat16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_remembered_noise_is_the_same_on_the_gpu():
    """A model trained on a GPU and served from a CPU would add other noise."""
    x, like = normal(0, 5, 4), torch.zeros(5, 8)
    source = NoiseSource("gaussian", memoise=True)
    noise = source.draw(x, like, stream(0))
    assert torch.allclose(source.draw(x.cuda(), like.cuda(), stream(0)).cpu(), noise, atol=1e-5)
