"""If these fail, discovery looks safer than it is: an attack misses what was planted, or claims what is not there."""

from dataclasses import replace

import numpy as np
import pytest

from colonnade.attack.discovery import (
    DISCOVERY_ATTACKS,
    DiscoveryEvidence,
    Guess,
    Look,
    Observer,
    Visit,
    judge,
    make_discovery_attack,
    pool,
)
from colonnade.attack.discovery.basis import Basis
from colonnade.attack.discovery.gram import gram
from colonnade.discover.exchange import FACTOR_BITS, Layout
from colonnade.errors import ConfigError, DataError
from colonnade.federation.discovery import DiscoverySettings

RECORDS, FOREIGN, EFFECTS, HIDDEN = 300, 4, 3, 3
SETTINGS = DiscoverySettings(secure=False, hidden=HIDDEN, validate_every=2)


def foreign_columns(random):
    """Correlated columns, far from normal."""
    sources = random.laplace(size=(RECORDS, FOREIGN)) ** 3
    mixed = sources @ (np.eye(FOREIGN) + 0.3 * random.normal(size=(FOREIGN, FOREIGN)))
    return (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)


def played(seed=0, rounds=40, blocks=2, unrelated=False, noise=0.0):
    """A discovery as a target sees it: features, its answers, and a coordinator that shrinks all edges by a little.

    `unrelated` shows the features of other records, so that nothing can be learned.
    """
    random = np.random.default_rng(seed)
    truth = foreign_columns(random)
    columns = foreign_columns(random) if unrelated else truth
    weights = random.normal(0, 0.3, (FOREIGN, EFFECTS * HIDDEN))
    parts = np.array_split(random.permutation(RECORDS), blocks)
    visits, verdicts, strengths = [], [], []
    for step in range(rounds * blocks):
        rows = parts[step % blocks]
        seen = columns[rows] @ weights
        update = random.normal(0, 0.003, seen.shape)
        visits.append(Visit(step, rows, seen + noise * random.normal(size=seen.shape), update))
        weights = weights - columns[rows].T @ update
        if (step + 1) % SETTINGS.validate_every == 0:
            norms = np.linalg.norm(weights.reshape(FOREIGN, EFFECTS, HIDDEN), axis=2)
            factors = 1 - 1e-4 / norms
            strengths.append(Look(step + 1, norms))
            verdicts.append(Look(step + 1, np.rint(factors * 2**FACTOR_BITS) / 2**FACTOR_BITS))
            weights = weights * np.repeat(factors, HIDDEN, axis=1)
    own = random.normal(size=(RECORDS, 2))
    evidence = DiscoveryEvidence(
        SETTINGS, 6, (1,) * FOREIGN, EFFECTS, tuple(visits), own, tuple(verdicts), tuple(strengths)
    )
    return evidence, truth


def leak_of(name, evidence, truth):
    return judge(make_discovery_attack(name).guess(evidence), truth)


PLANTED = {
    "subspace": (0.999, lambda evidence, truth: evidence),
    "ica": (0.8, lambda evidence, truth: evidence),
    "gram": (0.8, lambda evidence, truth: evidence),
    "verdict": (0.98, lambda evidence, truth: evidence),
    "coordinator": (0.999, lambda evidence, truth: evidence),
    "known_records": (0.99, lambda evidence, truth: evidence.knowing(20, truth)),
    "unsplit": (0.2, lambda evidence, truth: evidence),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_attack_finds_what_is_there(name):
    evidence, truth = played()
    least, prepare = PLANTED[name]
    leak = leak_of(name, prepare(evidence, truth), truth)
    assert leak.correlation > least
    assert leak.r2_baseline < 0.1 < leak.r2


@pytest.mark.parametrize("name", [*PLANTED, "own_columns"])
def test_an_attack_finds_nothing_in_features_of_other_records(name):
    evidence, truth = played(unrelated=True)
    leak = leak_of(name, evidence.knowing(20, truth) if name in ("known_records", "own_columns") else evidence, truth)
    assert leak.correlation < leak.correlation_baseline + 0.12
    assert leak.r2 < 0.1


def test_a_rotation_takes_fewer_known_records_than_a_regression():
    evidence, truth = played(blocks=1)
    few = [evidence.knowing(FOREIGN - 1, truth, seed) for seed in range(8)]
    found = {name: np.mean([leak_of(name, one, truth).r2 for one in few]) for name in ("gram", "known_records")}
    assert found["gram"] > found["known_records"] + 0.05


def test_known_records_are_not_counted_as_guessed():
    evidence, truth = played()
    known = evidence.knowing(20, truth)
    for name in ("known_records", "own_columns", "gram"):
        assert not set(make_discovery_attack(name).guess(known).rows) & set(known.known_rows)


def test_blocks_are_brought_to_common_coordinates():
    evidence, truth = played(blocks=3)
    basis = Basis(evidence)
    mixing = np.linalg.lstsq(basis.points, truth[basis.rows], rcond=None)[0]
    assert np.abs(basis.points @ mixing - truth[basis.rows]).max() < 0.3
    found = gram(basis, evidence)
    np.testing.assert_allclose(found, mixing @ mixing.T, atol=0.1 * np.abs(found).max())


def test_a_narrow_feature_does_not_hide_columns_when_many_are_seen():
    """One hidden unit for one variable: one number a record and exchange, four foreign columns."""
    evidence, truth = played()
    narrow = replace(
        evidence,
        effects=1,
        visits=tuple(replace(visit, features=visit.features[:, :1], update=None) for visit in evidence.visits),
    )
    assert leak_of("known_records", narrow.knowing(30, truth), truth).r2 > 0.9


def test_noise_is_averaged_out_over_many_exchanges():
    evidence, truth = played(noise=0.5, rounds=200, blocks=1)
    once = replace(evidence, visits=evidence.visits[:2])
    often = leak_of("subspace", evidence, truth).r2
    assert often > 0.9 > leak_of("subspace", once, truth).r2


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("known_records", {}),
        ("verdict", {"verdicts": ()}),
        ("coordinator", {"strengths": ()}),
        ("ica", {"visits": ()}),
    ],
)
def test_an_attack_says_what_it_lacks(name, without):
    evidence, _ = played(rounds=3)
    with pytest.raises(DataError):
        make_discovery_attack(name).guess(replace(evidence, **without))


def test_too_many_known_records_are_refused():
    evidence, truth = played(rounds=3)
    with pytest.raises(ConfigError, match="can't be known"):
        evidence.knowing(RECORDS + 1, truth)


# -- judging ----------------------------------------------------------------------------------------------------------


def test_a_perfect_guess_scores_one_whatever_its_sign_and_scale():
    truth = np.random.default_rng(0).normal(size=(200, 3))
    leak = judge(Guess(np.arange(200), -7 * truth + 1), truth)
    assert leak.correlation == pytest.approx(1) and leak.r2 == pytest.approx(1)
    assert leak.correlation_baseline < 0.15


def test_columns_in_the_wrong_order_count_only_for_a_guess_that_claims_no_order():
    truth = np.random.default_rng(0).normal(size=(200, 3))
    turned = truth[:, [1, 2, 0]]
    claimed, best = (judge(Guess(np.arange(200), turned, match), truth) for match in ("claimed", "best"))
    assert claimed.correlation < 0.2 < claimed.correlation_elsewhere
    assert best.correlation == pytest.approx(1)


def test_the_best_of_many_components_has_a_higher_baseline():
    random = np.random.default_rng(0)
    truth, guess = random.normal(size=(100, 3)), random.normal(size=(100, 40))
    best = judge(Guess(np.arange(100), guess, "best"), truth)
    one = judge(Guess(np.arange(100), guess[:, :3]), truth)
    assert best.correlation_baseline > 2 * one.correlation_baseline
    assert best.correlation == pytest.approx(best.correlation_baseline, abs=0.1)


def test_a_constant_guess_shows_nothing():
    truth = np.random.default_rng(0).normal(size=(50, 2))
    assert judge(Guess(np.arange(50), np.full((50, 2), 0.1)), truth).correlation == 0


# -- watching ---------------------------------------------------------------------------------------------------------


def test_an_observer_stays_within_its_budget_and_keeps_beginning_and_end():
    rows, features = np.arange(10), np.ones((10, 5))
    observer = Observer(budget=50 * 2 * features.nbytes)
    for step in range(500):
        observer.saw(step, rows, features * step, {})
        observer.answered(step, rows, features)
    steps = [visit.step for visit in observer.visits[0]]
    assert len(steps) <= 50 and steps[:10] == list(range(10)) and steps[-1] == 499
    assert set(observer.apart) == {(0, step) for step in steps}


def test_accomplices_subtract_their_own_features_and_stand_side_by_side():
    rows = np.arange(6)
    layouts = {name: Layout((1,)) for name in "abc"}
    columns = {name: np.zeros((6, 1)) for name in "abc"}
    seen = {"a": {"b": 1.0, "c": 2.0}, "b": {"a": 3.0, "c": 4.0}}
    observers = {name: Observer() for name in seen}
    for name, peers in seen.items():
        apart = {peer: np.full((6, HIDDEN), value) for peer, value in peers.items()}
        observers[name].saw(0, rows, sum(apart.values()), apart)
        observers[name].judged(1, {peer: np.full((1, 1), 1 << 19) for peer in peers}, False)
    pooled = pool(observers, layouts, columns, SETTINGS)
    assert pooled.visits[0].features.tolist() == [[2.0] * HIDDEN + [4.0] * HIDDEN] * 6
    assert pooled.verdicts[0].values.tolist() == [[0.5, 0.5]]
    alone = pool({"a": observers["a"]}, layouts, columns, SETTINGS)
    assert (alone.visits[0].features == 3.0).all() and alone.foreign == 2
    with pytest.raises(ConfigError, match="nobody to attack"):
        pool(observers, layouts, columns, SETTINGS, victims=["a"])


def test_all_attacks_are_listed():
    assert set(PLANTED) | {"own_columns"} == set(DISCOVERY_ATTACKS)
    assert all(line.split("  ", 1)[1].strip() for line in repr(DISCOVERY_ATTACKS).splitlines())
