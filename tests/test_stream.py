"""If these fail, an active party tries out 2^32 seeds and takes the noise and the coins of a whole training off."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from colonnade.stream import Chain, stream

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


def stretches(answers, chain, generator):
    """What is drawn after each answer."""
    drawn = []
    for answer in answers:
        chain.turn(generator, torch.full((3, 2), float(answer)))
        drawn.append(torch.randn(5, generator=generator))
    return drawn


def test_who_answers_otherwise_gets_other_noise_from_there_on():
    """Let a run be resumed, answer otherwise, subtract: what is left was the record."""
    honest, alike, other = (stretches(answers, Chain(LONG), stream(LONG)) for answers in ("111", "111", "121"))
    assert all(map(torch.equal, honest, alike)), "a resumed run repeats the undisturbed one"
    assert torch.equal(honest[0], other[0])
    assert not torch.equal(honest[1], other[1]) and not torch.equal(honest[2], other[2])


def test_a_stretch_that_is_known_tells_nothing_of_the_next():
    """Of a Mersenne Twister 624 words tell all that follow: whoever knows records exactly learns them."""
    generator, chain = stream(LONG), Chain(LONG)
    known = generator.get_state()
    chain.turn(generator, torch.ones(1))
    following = torch.Generator()
    following.set_state(known)
    ahead = torch.rand(100_000, generator=following)
    assert not torch.isin(torch.rand(100, generator=generator), ahead).all()
    drawn = [stretches("1", Chain(seed), stream(LONG))[0] for seed in (LONG, LONG + 1)]
    assert not torch.equal(*drawn), "answers alone, which others know, decide nothing"


def test_a_chain_goes_on_from_a_kept_state():
    chain, generator = Chain(LONG), stream(LONG)
    stretches("12", chain, generator)
    again = Chain(LONG + 7)
    again.load_state_dict(chain.state_dict())
    assert torch.equal(*(stretches("3", one, stream(0))[0] for one in (chain, again)))
