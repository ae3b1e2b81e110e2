"""Fresh attribute attackers: if these fail, an audit calls a secret hidden that anybody could have read off uploads."""

import numpy as np
import pytest
import torch

from colonnade.attack.attribute import ATTRIBUTE_ATTACKERS, AttributeAttacker, make_attribute_attacker
from colonnade.errors import ConfigError, DataError

VECTORS = ("linear", "mlp", "boosting")


@pytest.fixture(scope="module")
def uploads():
    """Off centre, and each feature at another scale."""
    random = np.random.default_rng(0)
    return (random.normal(size=(3000, 8)) * np.logspace(-2, 3, 8) + 7).astype(np.float32)


def split(uploads, secret, known=2000):
    return (uploads[:known], secret[:known]), (uploads[known:], secret[known:])


def hits(name, uploads, secret, **parameters):
    (x, y), (unseen, truth) = split(uploads, secret)
    return np.mean(make_attribute_attacker(name, **parameters).fit(x, y).predict(unseen) == truth)


def units(uploads):
    return (uploads - uploads.mean(0)) / uploads.std(0)


@pytest.mark.parametrize("name", VECTORS)
def test_a_secret_on_one_side_of_a_plane_is_found_whatever_the_scales(name, uploads):
    secret = (units(uploads)[:, :3].sum(1) > 0.3).astype(int)
    assert hits(name, uploads, secret) > 0.93


@pytest.mark.parametrize(("name", "least", "most"), [("linear", 0, 0.6), ("mlp", 0.85, 1), ("boosting", 0.85, 1)])
def test_an_interaction_is_found_by_those_who_can(name, least, most, uploads):
    """That is why one attacker is not enough: to the linear one this secret is hidden."""
    secret = (units(uploads)[:, 0] * units(uploads)[:, 1] > 0).astype(int)
    assert least <= hits(name, uploads, secret) <= most


@pytest.mark.parametrize("name", VECTORS)
def test_uploads_that_tell_nothing_give_the_majority(name, uploads):
    """An attacker that overfits would guess worse than blindly, and a defense be praised for it."""
    secret = (np.random.default_rng(1).random(3000) < 0.3).astype(int)
    assert hits(name, uploads, secret) == pytest.approx(1 - secret[2000:].mean(), abs=0.01)
    same = make_attribute_attacker(name).fit(np.ones((100, 3)), np.arange(100) % 3 % 2)
    assert same.predict(np.ones((5, 3))).tolist() == [0] * 5


@pytest.mark.parametrize("name", VECTORS)
def test_a_number_is_guessed_in_its_own_unit(name, uploads):
    random = np.random.default_rng(2)
    signal = units(uploads)[:, 0] - units(uploads)[:, 4]
    secret = (signal / np.sqrt(2) + 0.5 * random.normal(size=3000)).astype(np.float32)
    (x, y), (unseen, truth) = split(uploads, secret)
    guesses = make_attribute_attacker(name).fit(x, y).predict(unseen)
    assert guesses.dtype == np.float32
    reached, possible = (
        1 - np.mean((guess - truth) ** 2) / truth.var() for guess in (guesses, signal[2000:] / np.sqrt(2))
    )
    assert possible - 0.06 < reached < possible + 0.02


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_missing_secrets_teach_nothing(name, kind, uploads):
    """They would be one more class, or poison every weight."""
    x = uploads[:400]
    secret = (units(x)[:, 0] > 0).astype(int) if kind == "classes" else units(x)[:, 0]
    gaps = np.arange(400) % 3 == 0
    holed = np.where(gaps, -1 if kind == "classes" else np.nan, secret)
    wild = np.where(gaps[:, None], np.float32(1e6), x)
    with_gaps = make_attribute_attacker(name).fit(wild, holed).predict(uploads[400:600])
    without = make_attribute_attacker(name).fit(x[~gaps], secret[~gaps]).predict(uploads[400:600])
    assert np.array_equal(with_gaps, without)
    assert -1 not in with_gaps


@pytest.mark.parametrize("name", VECTORS)
def test_classes_keep_their_numbers_and_one_that_is_met_once_does_no_harm(name, uploads):
    """Whether it falls among the pairs held back is chance: 20 seeds see both."""
    x = uploads[:200]
    secret = np.where(units(x)[:, 0] > 0, 7, 3)
    secret[0] = 5
    for seed in range(20):
        guesses = make_attribute_attacker(name, seed=seed).fit(x[:60], secret[:60]).predict(x[60:])
        assert set(guesses) <= {3, 5, 7}
        assert np.mean(guesses == secret[60:]) > 0.7


@pytest.mark.parametrize("name", sorted(ATTRIBUTE_ATTACKERS))
def test_the_same_seed_gives_the_same_guesses_and_no_other_random_stream_moves(name, uploads):
    random = np.random.default_rng(3)
    x = random.normal(size=(300, 2, 4, 2)).astype(np.float32)
    secret = (x[:, 0].mean((1, 2)) + 0.3 * random.normal(size=300)).astype(np.float32)
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    one, other, third = (make_attribute_attacker(name, seed=seed).fit(x, secret).predict(x) for seed in (1, 1, 2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def textures(count=400, seed=0):
    """Stripes that lie or stand, at a random place and of random sign: no single number tells them apart."""
    random = np.random.default_rng(seed)
    secret = random.integers(0, 2, count)
    stripes = np.broadcast_to(np.where(np.arange(12) % 4 < 2, 1.0, -1.0), (12, 12))
    maps = [np.roll(stripes if lying else stripes.T, random.integers(0, 4, 2), (0, 1)) for lying in secret]
    return (np.stack(maps)[:, None] + random.normal(0, 0.5, (count, 1, 12, 12))).astype(np.float32), secret


def test_a_texture_is_found_by_convolutions_alone():
    maps, secret = textures()
    found = {
        name: np.mean(make_attribute_attacker(name).fit(maps[:300], secret[:300]).predict(maps[300:]) == secret[300:])
        for name in ("linear", "conv")
    }
    assert found["conv"] > 0.9
    assert found["linear"] < 0.7


def test_maps_are_read_as_tensors_and_large_ones_are_averaged(uploads):
    """A few thousand numbers a record are enough for a linear attacker, and all that it can wait for."""
    bright = torch.randn(300, 1, 1, 1, generator=torch.Generator().manual_seed(0))
    maps = bright + torch.randn(300, 20, 32, 16, generator=torch.Generator().manual_seed(1))
    secret = (bright.flatten() > 0).long()
    for name in ("linear", "boosting"):
        guesses = make_attribute_attacker(name).fit(maps[:200], secret[:200]).predict(maps[200:])
        assert np.mean(guesses == secret[200:].numpy()) > 0.9


def test_it_learns_from_at_most_so_many_pairs_and_judges_itself_on_pairs_alone():
    sizes = {}

    class Counting(AttributeAttacker):
        name = "counting"

        def _learn(self, train, held_back):
            sizes.update(train=len(train.uploads), held_back=len(held_back.uploads))
            rows = {row.tobytes() for row in train.uploads}
            assert not rows & {row.tobytes() for row in held_back.uploads}
            return train.blind()

    x = np.random.default_rng(0).normal(size=(500, 3))
    Counting(pairs=100).fit(x, np.arange(500) % 2)
    assert sizes == {"train": 80, "held_back": 20}
    Counting().fit(x, np.arange(500) % 2)
    assert sizes == {"train": 400, "held_back": 100}


def test_what_can_not_be_learned_is_told(uploads):
    linear, secret = make_attribute_attacker("linear"), np.arange(3000) % 2
    for wrong, said in (
        ((uploads[:10], secret[:10]), "10 pairs are too few"),
        ((uploads[:50], np.full(50, -1)), "0 pairs are too few"),
        ((uploads[:50], secret[:40]), "do not pair"),
        ((uploads[:50, 0], secret[:50]), "can't read uploads of shape"),
        ((np.full((50, 2), np.inf), secret[:50]), "infinite numbers"),
    ):
        with pytest.raises(DataError, match=said):
            linear.fit(*wrong)
    with pytest.raises(ConfigError, match="call fit first"):
        linear.predict(uploads)
    with pytest.raises(DataError, match=r"attacker 'conv'.*give maps"):
        make_attribute_attacker("conv").fit(uploads, secret)
    with pytest.raises(ConfigError, match=r"unknown attribute attacker 'linaer'.*did you mean 'linear'"):
        make_attribute_attacker("linaer")
    with pytest.raises(ConfigError, match=r"linear\.pairs"):
        make_attribute_attacker("linear", pairs=3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_networks_learn_on_the_gpu_too(name):
    maps, secret = textures()
    attacker = make_attribute_attacker(name, device="cuda").fit(maps[:300], secret[:300])
    assert attacker.predict(maps[300:]).shape == (100,)
