"""If these fail, decoders learn something other than the likelihood, or a resumed run learns something else."""

import numpy as np
import pytest

from colonnade.discover.decoders import Decoders
from colonnade.discover.likelihoods import LOG_RATE_CAP, sigmoid, softplus
from colonnade.discover.variables import Variable
from colonnade.errors import RunError

KINDS = ("continuous", "binary", "count", "categorical")
MIXED = ("categorical", "continuous", "count", "binary", "continuous", "categorical")


def variables_of(kinds):
    """Categorical variables have 3, 4, … levels, so that heads of different widths stand side by side."""
    found, start, levels = [], 0, 3
    for place, kind in enumerate(kinds):
        names = tuple("abcdefgh"[:levels]) if kind == "categorical" else ()
        width = max(1, len(names))
        found.append(Variable(f"v{place}", kind, slice(start, start + width), names))
        start, levels = start + width, levels + (kind == "categorical")
    return found


def drawn(variables, n, hidden, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "continuous": lambda v: rng.normal(size=n),
        "binary": lambda v: rng.integers(0, 2, n),
        "count": lambda v: rng.poisson(3, n),
        "categorical": lambda v: rng.integers(0, len(v.levels), n),
    }
    target = np.stack([columns[v.kind](v).astype(float) for v in variables], axis=1)
    return rng.normal(size=(n, len(variables) * hidden)), target, rng.random((n, len(variables))) < 0.8


def decoders_of(variables, seed=0, hidden=3, **options):
    """Decoders away from their first weights: at zero biases a wrong gradient can look right."""
    decoders = Decoders(variables, hidden, rng=np.random.default_rng(seed), **options)
    rng = np.random.default_rng(seed + 1)
    state = decoders.state()
    decoders.load(
        {name: v + (0.3 * rng.normal(size=v.shape) if "adam" not in name else 0) for name, v in state.items()}
    )
    return decoders


def slope(function, values):
    """Central differences of a scalar function, entry by entry."""
    found = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        moved = values.copy()
        moved[place] += 1e-6
        above = function(moved)
        moved[place] -= 2e-6
        found[place] = (above - function(moved)) / 2e-6
    return found


@pytest.mark.parametrize("variance", ["head", "scalar"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("kinds", [*[(kind, kind) for kind in KINDS], MIXED], ids=lambda kinds: "-".join(kinds[:2]))
def test_gradients_are_those_of_the_loss(kinds, depth, variance):
    variables = variables_of(kinds)
    decoders = decoders_of(variables, depth=depth, variance=variance)
    z, target, observed = drawn(variables, 6, 3)
    found = decoders.gradients(z, target, observed)

    np.testing.assert_allclose(found.losses, decoders.losses(z, target, observed), atol=1e-12)
    expected = slope(lambda moved: decoders.losses(moved, target, observed).sum() / 6, z)
    np.testing.assert_allclose(found.z, expected, atol=1e-7)
    state = decoders.state()
    assert found.parameters.keys() == state.keys()
    for name, value in state.items():

        def loss(moved, name=name):
            decoders.load({**state, name: moved})
            return decoders.losses(z, target, observed).sum() / 6

        np.testing.assert_allclose(found.parameters[name], slope(loss, value), atol=1e-7, err_msg=name)


def test_losses_are_the_negative_log_likelihoods():
    """Up to terms of the data alone, which are compared away by a second set of outputs."""
    variables = variables_of(("continuous", "binary", "count", "categorical"))
    z, target, _ = drawn(variables, 5, 3)
    seen = np.ones((5, 4), bool)
    difference = 0.0
    for sign, decoders in ((1, decoders_of(variables, 0)), (-1, decoders_of(variables, 5))):
        state = decoders.state()
        active = sigmoid(z.reshape(5, 4, 3) + state["bias.1"])
        heads = {
            kind: active[:, j] @ state[f"{kind}.weight"][0] + state[f"{kind}.bias"][0]
            for j, kind in enumerate(("continuous", "binary", "count", "categorical"))
        }
        mean, variance = heads["continuous"][:, 0], np.log1p(np.exp(heads["continuous"][:, 1])) + 1e-3
        chance = 1 / (1 + np.exp(-heads["binary"][:, 0]))
        rate = np.exp(heads["count"][:, 0])
        share = np.exp(heads["categorical"]) / np.exp(heads["categorical"]).sum(1, keepdims=True)
        expected = np.stack(
            [
                -np.log(np.exp(-((target[:, 0] - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)),
                -np.log(np.where(target[:, 1] == 1, chance, 1 - chance)),
                rate - target[:, 2] * np.log(rate),
                -np.log(share[np.arange(5), target[:, 3].astype(int)]),
            ],
            axis=1,
        )
        difference = difference + sign * (decoders.losses(z, target, seen) - expected)
    np.testing.assert_allclose(difference, 0, atol=1e-10)


def test_missing_targets_teach_nothing():
    variables = variables_of(MIXED)
    decoders = decoders_of(variables)
    z, target, observed = drawn(variables, 8, 3)
    observed[:, 2] = False
    found = decoders.gradients(z, target, observed)
    assert (found.losses[~observed] == 0).all()
    assert (found.z.reshape(8, 6, 3)[~observed] == 0).all()
    changed = decoders.gradients(z, np.where(observed, target, 0.0), observed)
    np.testing.assert_array_equal(found.z, changed.z)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_curvature_is_the_expected_square_of_the_gradient(depth):
    """Fisher's identity: over targets drawn from the decoders' own likelihood, E[g gᵀ] is the curvature."""
    kinds = ["binary", "categorical"]
    variables = variables_of(kinds)
    decoders = decoders_of(variables, depth=depth)
    z, target, observed = drawn(variables, 6, 3)
    observed[:] = True
    observed[2, 1] = False
    expected = np.zeros((2, 3, 3))
    for place, variable in enumerate(variables):
        for record in range(6):
            for level in range(max(len(variable.levels), 2)):
                target[record, place] = level
                found = decoders.gradients(z[[record]], target[[record]], observed[[record]])
                own = found.z.reshape(2, 3)[place]
                chance = np.exp(-found.losses[0, place]) if observed[record, place] else 0.0
                expected[place] += chance * np.outer(own, own) / 6
    np.testing.assert_allclose(decoders.curvature(z, observed), expected, atol=1e-12)


def test_curvature_of_numbers_and_counts_is_the_expected_square_of_the_gradient():
    rng, draws = np.random.default_rng(0), 40_000
    kinds = ["continuous", "count"]
    variables = variables_of(kinds)
    decoders = decoders_of(variables)
    z = np.repeat(drawn(variables, 1, 3)[0], draws, axis=0)
    outputs = {
        family.name: decoders._outputs(family, decoders._layers(z[:1])[-1][family.rows])
        for family in decoders._families
    }
    mean, raw = outputs["continuous"][0, 0]
    numbers = rng.normal(mean, np.sqrt(np.logaddexp(0, raw) + 1e-3), draws)
    target = np.stack([numbers, rng.poisson(np.exp(outputs["count"][0, 0, 0]), draws)], axis=1).astype(float)
    observed = np.ones_like(target, dtype=bool)
    single = decoders.gradients(z, target, observed).z.reshape(draws, 2, 3) * draws
    expected = np.einsum("njh,njk->jhk", single, single) / draws
    found = decoders.curvature(z, observed)
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(found).max())


def test_first_weights_do_not_depend_on_who_holds_a_column():
    """Two parties that draw one after the other start as one party with all columns; so do generators by variable."""
    variables = variables_of(MIXED)
    whole = Decoders(variables, 4, 2, rng=np.random.default_rng(3)).state()
    rng = np.random.default_rng(3)
    first, second = Decoders(variables[:3], 4, 2, rng=rng).state(), Decoders(variables[3:], 4, 2, rng=rng).state()
    np.testing.assert_array_equal(whole["weight.2"], np.concatenate([first["weight.2"], second["weight.2"]]))
    np.testing.assert_array_equal(whole["count.weight"], first["count.weight"])
    np.testing.assert_array_equal(whole["binary.weight"], second["binary.weight"])
    np.testing.assert_array_equal(whole["categorical.weight"][1], second["categorical.weight"][0])
    each = Decoders(variables[3:], 4, 2, rng=[np.random.default_rng(n) for n in range(3)]).state()
    last = Decoders(variables[5:], 4, 2, rng=[np.random.default_rng(2)]).state()
    np.testing.assert_array_equal(each["weight.2"][2], last["weight.2"][0])
    assert (whole["bias.1"] == 0).all() and (whole["weight.2"] != 0).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_resumed_decoder_goes_on_as_if_nothing_had_happened(optimizer):
    variables = variables_of(MIXED)
    steps = [drawn(variables, 9, 3, seed) for seed in range(6)]

    def learn(decoders, batches):
        for batch in batches:
            decoders.step(decoders.gradients(*batch).parameters, 0.05)
        return decoders

    undisturbed = learn(decoders_of(variables, optimizer=optimizer), steps)
    stored = learn(decoders_of(variables, optimizer=optimizer), steps[:3]).state()
    resumed = Decoders(variables, 3, rng=np.random.default_rng(9), optimizer=optimizer)
    resumed.load(stored)
    learn(resumed, steps[3:])
    for name, value in undisturbed.state().items():
        np.testing.assert_array_equal(value, resumed.state()[name], err_msg=name)


def test_adam_moves_each_parameter_by_the_learning_rate_at_first():
    variables = variables_of(("continuous", "binary"))
    decoders = Decoders(variables, 3, rng=np.random.default_rng(0), optimizer="adam")
    before, gradient = decoders.state(), decoders.gradients(*drawn(variables, 9, 3)).parameters
    decoders.step(gradient, 0.01)
    for name, slope_of in gradient.items():
        np.testing.assert_allclose(before[name] - decoders.state()[name], 0.01 * np.sign(slope_of), rtol=1e-3)


def test_stored_decoders_of_other_settings_are_refused():
    variables = variables_of(MIXED)
    stored = decoders_of(variables, depth=2).state()
    with pytest.raises(RunError, match="other parameters"):
        decoders_of(variables, depth=1).load(stored)


@pytest.mark.parametrize("variance", ["head", "scalar"])
def test_decoders_learn_the_distribution_of_every_kind(variance):
    """Without causes the best answer is each variable's own distribution; its entropy is the loss to reach."""
    variables = variables_of(("continuous", "binary", "count", "categorical"))
    rng = np.random.default_rng(0)
    n = 2000
    target = np.stack([2 + 0.5 * rng.normal(size=n), rng.random(n) < 0.2, rng.poisson(6, n), rng.integers(0, 3, n)], 1)
    target = target.astype(float)
    z, seen = np.zeros((n, 4 * 3)), np.ones((n, 4), bool)
    decoders = Decoders(variables, 3, variance=variance, rng=rng)
    for _ in range(1500):
        decoders.step(decoders.gradients(z, target, seen).parameters, 0.05)
    rate, chance = target[:, 2].mean(), target[:, 1].mean()
    best = [
        0.5 * np.log(target[:, 0].var()) + 0.5,
        -chance * np.log(chance) - (1 - chance) * np.log(1 - chance),
        rate - rate * np.log(rate),
        np.log(3),
    ]
    np.testing.assert_allclose(decoders.losses(z, target, seen).mean(axis=0), best, atol=0.01)


def test_extreme_inputs_stay_finite():
    """A batch far out must not turn a whole run into NaN."""
    variables = variables_of(MIXED)
    decoders = decoders_of(variables)
    state = decoders.state()
    decoders.load({name: value * 1e3 for name, value in state.items()})
    z, target, observed = drawn(variables, 6, 3)
    with np.errstate(all="raise", under="ignore"):
        found = decoders.gradients(z * 1e4, target, observed)
    assert np.isfinite(found.losses).all() and np.isfinite(found.z).all()


def test_a_rate_above_the_cap_is_still_pulled_back():
    variables = variables_of(("count",))
    decoders = Decoders(variables, 2, rng=np.random.default_rng(0))
    decoders.load({**decoders.state(), "count.bias": np.array([[LOG_RATE_CAP + 5]])})
    found = decoders.gradients(np.zeros((1, 2)), np.array([[3.0]]), np.ones((1, 1), bool))
    assert found.parameters["count.bias"][0, 0] == pytest.approx(np.exp(LOG_RATE_CAP) - 3)


def test_squashing_functions_hold_far_from_zero():
    x = np.array([-800.0, -1.0, 0.0, 1.0, 800.0])
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(sigmoid(x), [0, 0.2689414, 0.5, 0.7310586, 1], atol=1e-7)
        np.testing.assert_allclose(softplus(x), [0, 0.3132617, 0.6931472, 1.3132617, 800], atol=1e-7)
