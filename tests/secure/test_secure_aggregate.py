"""If these fail, a target learns what one source gives it, or sums are spoilt by masks that do not cancel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from colonnade.errors import ConfigError, DataError, FrameError
from colonnade.secure.aggregate import ZeroMasks
from colonnade.secure.dispatch import SECURE_KINDS
from colonnade.secure.ring import wrap
from colonnade.wire.local import local_channels
from colonnade.wire.together import run_together

SHAPE = (4, 3)


def masks_of(names, requests, step=0):
    """Return for each party what it got for each (target, step, shape) that is not itself."""

    def live(channel):
        masks = ZeroMasks(channel, names)
        masks.exchange(step)
        return {each[:2]: masks.mask(*each) for each in requests if each[0] != channel.name}

    return run_together(dict.fromkeys(names, live))


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**40), st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_masks_of_all_sources_of_a_target_add_up_to_zero(parties, step, shape):
    names = [f"party{i}" for i in range(parties)]
    found = masks_of(names, [(target, step, shape) for target in names])
    for target in names:
        parts = [masks[target, step] for masks in found.values() if (target, step) in masks]
        assert len(parts) == parties - 1
        assert not wrap(np.sum(parts, axis=0, dtype=np.uint64)).any()
        assert all(part.max() < 2**59 and part.shape == shape for part in parts)
        assert all(part.any() == (parties > 2) for part in parts)


def test_a_target_that_is_no_source_gets_masks_that_add_up_too():
    """A coordinator that only receives."""

    def live(channel):
        if channel.name == "judge":
            return None
        masks = ZeroMasks(channel, ["a", "b", "c"])
        masks.exchange()
        return masks.mask("judge", 0, SHAPE)

    found = run_together(dict.fromkeys(["a", "b", "c", "judge"], live))
    assert not wrap(found["a"] + found["b"] + found["c"]).any()


def test_masks_differ_between_targets_steps_sources_and_runs():
    requests = [(target, step, SHAPE) for step in range(3) for target in "abcd"]
    found = [mask for _ in range(2) for masks in masks_of("abcd", requests).values() for mask in masks.values()]
    assert len(np.unique(np.stack(found))) == 2 * 4 * 3 * 3 * 12


def test_masks_are_uniform_in_all_bits():
    mask = masks_of("abc", [("a", 5, (1 << 15, 1))])["b"]["a", 5]
    for shift in (0, 25, 51):
        counts = np.bincount((mask.ravel() >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        assert ((counts - 128.0) ** 2 / 128.0).sum() < chi2.isf(1e-9, 255)


def test_a_mask_is_never_given_twice():
    def live(channel):
        masks = ZeroMasks(channel, "abc")
        masks.exchange()
        target = "a" if channel.name != "a" else "b"
        masks.mask(target, 7, SHAPE)
        with pytest.raises(DataError, match="used before"):
            masks.mask(target, 7, (1, 1))
        with pytest.raises(DataError, match="used before"):
            masks.mask(target, 6, SHAPE)
        masks.exchange(1)
        return masks.mask(target, 7, SHAPE)

    run_together(dict.fromkeys("abc", live))


def test_what_the_target_sees_of_one_source_is_the_same_for_any_value():
    """Two sources give 0 or a secret: the target's view of one of them is uniform, the sum is right."""
    secret = np.full(SHAPE, 2**40, np.uint64)
    found = masks_of("abc", [("a", 0, SHAPE)])
    seen = wrap(found["b"]["a", 0] + secret), found["c"]["a", 0]
    assert (wrap(seen[0] + seen[1]) == secret).all()
    assert (seen[0] != secret).all()


def test_seeds_travel_only_once_and_only_within_their_pair():
    seen = []

    def live(channel):
        channel.observe(lambda to, message: seen.append((channel.name, to, message)))
        masks = ZeroMasks(channel, "abc")
        masks.exchange(3)
        return repr(masks)

    texts = run_together(dict.fromkeys("abc", live))
    assert sorted((sender, to) for sender, to, _ in seen) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {message.kind for _, _, message in seen} == {"secure.seed"} <= set(SECURE_KINDS)
    seeds = [message.tensors["seed"].tobytes() for _, _, message in seen]
    assert len(set(seeds)) == 3
    assert not any(seed.hex() in text or repr(seed) in text for seed in seeds for text in texts.values())


@pytest.mark.parametrize("seed", [np.zeros(31, np.uint8), np.zeros(32), np.zeros((1, 32), np.uint8)])
def test_seeds_that_are_none_are_refused_and_their_sender_named(seed):
    channels = local_channels(["a", "b"])
    channels["a"].send("b", "secure.seed", 0, {"seed": seed})
    with pytest.raises(FrameError) as caught:
        ZeroMasks(channels["b"], "ab").exchange()
    assert caught.value.where == "a"


def test_wrong_use_is_told():
    channel = local_channels(["a", "b", "c"])["a"]
    with pytest.raises(ConfigError, match="none of the parties"):
        ZeroMasks(channel, "bc")
    masks = ZeroMasks(channel, "abc")
    with pytest.raises(ConfigError, match="exchange first"):
        masks.mask("b", 0, SHAPE)
    with pytest.raises(ConfigError, match="itself"):
        masks.mask("a", 0, SHAPE)
