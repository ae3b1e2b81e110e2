"""If these fail, an active party tries out 2^32 seeds and takes the noise and the coins of a whole training off."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from colonnade.stream import stream

LONG = 1 << 200


@given(some.integers(0, 199))
def test_every_bit_of_a_long_seed_counts(bit):
    first, second = (torch.randint(2**31, (8,), generator=stream(seed)) for seed in (LONG, LONG ^ (1 << bit)))
    assert not torch.equal(first, second)


def test_the_seed_that_torch_would_take_does_not_give_the_same_stream():
    """Of a seed a processor's stream has the lowest 32 bits: torch's own function forgets the others."""
    seed = LONG + 12345
    told = torch.randn(8, generator=torch.Generator().manual_seed(12345))
    assert torch.equal(told, torch.randn(8, generator=torch.Generator().manual_seed((1 << 40) + 12345))), "why we care"
    assert not torch.equal(told, torch.randn(8, generator=stream(seed)))
    kept = stream(seed).initial_seed()
    assert not torch.equal(
        torch.randn(8, generator=torch.Generator().manual_seed(kept)), torch.randn(8, generator=stream(seed))
    )


@given(some.integers(0, 2**256))
def test_a_stream_repeats_and_goes_on_from_a_kept_state(seed):
    one, same = stream(seed), stream(seed)
    assert torch.equal(torch.randn(1000, generator=one), torch.randn(1000, generator=same))
    same.set_state(one.get_state())
    assert torch.equal(torch.rand(10, generator=one), torch.rand(10, generator=same))


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63 - 1])
def test_short_seeds_give_the_streams_that_they_always_gave(seed):
    assert torch.equal(
        torch.rand(5, generator=stream(seed)), torch.rand(5, generator=torch.Generator().manual_seed(seed))
    )


def test_numbers_are_spread_as_they_should_be():
    """A state that torch reads otherwise would give zeros, or the same words again."""
    drawn = torch.rand(200_000, generator=stream(LONG + 1), dtype=torch.float64)
    counts = torch.histc(drawn, 100, 0, 1)
    assert ((counts - 2000).square() / 2000).sum() < 160, "chi-squared with 99 degrees of freedom"
    assert len(drawn.unique()) == len(drawn)
    assert abs(torch.corrcoef(torch.stack([drawn[:-1], drawn[1:]]))[0, 1]) < 0.01
