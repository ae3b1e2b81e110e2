"""One small network for each variable of a target party, all evaluated at once, with hand-written gradients.

A decoder reads its variable's h hidden units z and answers with the parameters of a likelihood:
sigmoid(z + bias), then `depth` - 1 further layers of h sigmoid units, then a linear head. Nothing here leaves the
target party but the gradient with respect to z.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from colonnade.discover import likelihoods
from colonnade.discover.likelihoods import sigmoid
from colonnade.discover.variables import Array, Mask, Variable
from colonnade.errors import RunError
from colonnade.federation.knowledge import VariableKind

Variance = Literal["head", "scalar"]
Optimizer = Literal["sgd", "adam"]
Parameters = dict[str, Array]
Likelihood = Callable[[Array, Array], tuple[Array, Array]]

_DECAYS = (0.9, 0.999)
_ADAM_FLOOR = 1e-8


@dataclass(frozen=True)
class DecoderGradients:
    """Losses, and gradients of their sum over variables and mean over records.

    Attributes:
        losses: (n, d), 0 where the target is missing.
        z: (n, d*h) gradient with respect to the decoders' input.
        parameters: gradients with respect to the decoders' own parameters, by name.
    """

    losses: Array
    z: Array
    parameters: Parameters


@dataclass(frozen=True)
class _Family:
    """The variables of one kind: their numbers, how many outputs each needs, which outputs are real."""

    name: VariableKind
    rows: slice | npt.NDArray[np.intp]
    likelihood: Likelihood
    outputs: int
    absent: Array | None  # (f, 1, o): -inf at levels that a variable does not have; None when all are there


class Decoders:
    """The decoders of one target party.

    First weights are drawn variable by variable, so that they need not depend on who holds which column: decoders
    of two parties, drawn one after the other from one generator, start as those of one party that holds all columns.

    Args:
        variables: the target party's variables.
        hidden: hidden units of each variable.
        depth: hidden layers, the first being sigmoid(z + bias).
        variance: of Gaussian variables: `head` lets it depend on the causes, `scalar` learns one number.
        rng: draws the first weights, one generator or one for each variable; biases start at 0.
        optimizer: how `step` moves.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        hidden: int,
        depth: int = 1,
        variance: Variance = "head",
        *,
        rng: np.random.Generator | Sequence[np.random.Generator],
        optimizer: Optimizer = "sgd",
    ) -> None:
        self.d, self.h, self.depth = len(variables), hidden, depth
        self._variance = variance
        self._families = _families(variables, variance)
        draws = [rng] * self.d if isinstance(rng, np.random.Generator) else list(rng)
        self._parameters = self._first(variables, draws)
        self._moments: dict[str, tuple[Array, Array]] = {}
        self._steps = 0
        if optimizer == "adam":
            self._moments = {name: (np.zeros_like(p), np.zeros_like(p)) for name, p in self._parameters.items()}

    def losses(self, z: Array, target: Array, observed: Mask) -> Array:
        """Return each record's negative log-likelihood of each variable (n, d), 0 where the target is missing."""
        layers = self._layers(z)
        losses = np.empty((self.d, len(z)))
        for family in self._families:
            outputs = self._outputs(family, layers[-1][family.rows])
            losses[family.rows] = family.likelihood(outputs, target.T[family.rows])[0]
        losses *= observed.T
        return losses.T

    def gradients(self, z: Array, target: Array, observed: Mask) -> DecoderGradients:
        """Return losses and all gradients; see `DecoderGradients` for how they are summed."""
        layers = self._layers(z)
        losses = np.empty((self.d, len(z)))
        weights = observed.T / len(z)
        found: Parameters = {}
        back = np.empty((self.d, len(z), self.h))
        for family in self._families:
            rows, top = family.rows, layers[-1][family.rows]
            losses[rows], delta = family.likelihood(self._outputs(family, top), target.T[rows])
            delta *= weights[rows][..., None]
            back[rows] = self._head_gradients(family, top, delta, found)
        back = self._layer_gradients(layers, back, found)
        losses *= observed.T
        return DecoderGradients(losses.T, back.transpose(1, 0, 2).reshape(len(z), -1), found)

    def explained(self, z: Array, target: Array, observed: Mask) -> Array:
        """Return the share of each continuous variable's variance that its decoder explains, (d,); NaN for others.

        Not finite either where a variable does not vary in these records.
        """
        top, found = self._layers(z)[-1], np.full(self.d, np.nan)
        for family in self._families:
            if family.name == "continuous":
                rows = family.rows
                seen, values = observed.T[rows], target.T[rows]
                means = self._outputs(family, top[rows])[..., 0]
                count = seen.sum(axis=1)
                with np.errstate(divide="ignore", invalid="ignore"):  # what did not vary here has no share
                    centre = (values * seen).sum(axis=1) / count
                    spread = (np.square(values - centre[:, None]) * seen).sum(axis=1)
                    found[rows] = 1.0 - (np.square(values - means) * seen).sum(axis=1) / spread
        return found

    def curvature(self, z: Array, observed: Mask) -> Array:
        """Return the expected curvature of each variable's loss in its z, (d, h, h), the mean over records.

        It is the Fisher information, Jᵀ I J with J the outputs' derivatives: what a small change of z would cost.
        """
        layers = self._layers(z)
        found = np.empty((self.d, self.h, self.h))
        for family in self._families:
            rows = family.rows
            outputs = self._outputs(family, layers[-1][rows])
            weights = likelihoods.information(family.likelihood, outputs)
            slopes = self._slopes(family, [layer[rows] for layer in layers])
            if family.name == "categorical":
                slopes -= (weights[..., None] * slopes).sum(axis=2, keepdims=True)
            weights = weights * (observed.T[rows] / len(z))[..., None]
            found[rows] = np.einsum("fno,fnoh,fnok->fhk", weights, slopes, slopes, optimize=True)
        return found

    def _slopes(self, family: _Family, layers: list[Array]) -> Array:
        """Return the derivatives of a family's outputs with respect to z, (f, n, outputs, h)."""
        slopes: Array = self._parameters[f"{family.name}.weight"].transpose(0, 2, 1)[:, None]
        for layer in range(self.depth, 0, -1):
            active = layers[layer - 1]
            slopes = slopes * (active * (1.0 - active))[:, :, None]
            if layer > 1:
                slopes = slopes @ self._parameters[f"weight.{layer}"][family.rows].transpose(0, 2, 1)[:, None]
        return slopes

    def step(self, gradient: Mapping[str, Array], learning_rate: float) -> None:
        """Move all parameters against the gradient."""
        if not self._moments:
            for name, parameter in self._parameters.items():
                parameter -= learning_rate * gradient[name]
            return
        self._steps += 1
        shrink = learning_rate / (1 - _DECAYS[0] ** self._steps)
        lift = 1 / (1 - _DECAYS[1] ** self._steps)
        for name, parameter in self._parameters.items():
            first, second = self._moments[name]
            first += (1 - _DECAYS[0]) * (gradient[name] - first)
            second += (1 - _DECAYS[1]) * (gradient[name] ** 2 - second)
            parameter -= shrink * first / (np.sqrt(second * lift) + _ADAM_FLOOR)

    def state(self) -> dict[str, Array]:
        """Return copies of all that training changes, for a checkpoint."""
        state = {name: parameter.copy() for name, parameter in self._parameters.items()}
        for name, (first, second) in self._moments.items():
            state |= {f"adam.first.{name}": first.copy(), f"adam.second.{name}": second.copy()}
        return state | ({"adam.steps": np.array([float(self._steps)])} if self._moments else {})

    def load(self, state: Mapping[str, Array]) -> None:
        """Go back to a stored state; RunError when it is of other decoders."""
        own = self.state()
        if {name: v.shape for name, v in own.items()} != {name: np.shape(v) for name, v in state.items()}:
            raise RunError(
                "the stored decoders have other parameters",
                where="decoders",
                remedy="resume with the settings and columns of the stored run",
            )
        for name, parameter in self._parameters.items():
            parameter[...] = state[name]
        for name, (first, second) in self._moments.items():
            first[...], second[...] = state[f"adam.first.{name}"], state[f"adam.second.{name}"]
        if self._moments:
            self._steps = int(state["adam.steps"][0])

    def _first(self, variables: Sequence[Variable], draws: Sequence[np.random.Generator]) -> Parameters:
        h = self.h
        parameters: Parameters = {f"bias.{layer}": np.zeros((self.d, h)) for layer in range(1, self.depth + 1)}
        for layer in range(2, self.depth + 1):
            parameters[f"weight.{layer}"] = np.zeros((self.d, h, h))
        for family in self._families:
            count = len(np.arange(self.d)[family.rows])
            parameters[f"{family.name}.weight"] = np.zeros((count, h, family.outputs))
            parameters[f"{family.name}.bias"] = np.zeros((count, family.outputs))
            if family.name == "continuous" and self._variance == "scalar":
                parameters["continuous.log_variance"] = np.zeros(count)
        seen: dict[str, int] = {}
        for row, (variable, rng) in enumerate(zip(variables, draws, strict=True)):
            place = seen.setdefault(variable.kind, 0)
            seen[variable.kind] += 1
            for layer in range(2, self.depth + 1):
                parameters[f"weight.{layer}"][row] = _uniform(rng, (h, h))
            width = len(variable.levels) if variable.kind == "categorical" else _outputs(variable.kind, self._variance)
            parameters[f"{variable.kind}.weight"][place, :, :width] = _uniform(rng, (h, width))
        return parameters

    def _layers(self, z: Array) -> list[Array]:
        """Return the activations (d, n, h) of every hidden layer."""
        # One memory order for all layers, variable by variable: products are fast and sums need no strides.
        by_variable = z.reshape(len(z), self.d, self.h).transpose(1, 0, 2)
        layers = [sigmoid(np.add(by_variable, self._parameters["bias.1"][:, None], order="C"))]
        for layer in range(2, self.depth + 1):
            inner = layers[-1] @ self._parameters[f"weight.{layer}"]
            inner += self._parameters[f"bias.{layer}"][:, None]
            layers.append(sigmoid(inner))
        return layers

    def _outputs(self, family: _Family, top: Array) -> Array:
        outputs: Array = top @ self._parameters[f"{family.name}.weight"]
        outputs += self._parameters[f"{family.name}.bias"][:, None]
        if family.absent is not None:
            outputs += family.absent
        if family.likelihood is likelihoods.gaussian_scalar:
            outputs = np.repeat(outputs, 2, axis=2)
            outputs[..., 1] = self._parameters["continuous.log_variance"][:, None]
        return outputs

    def _head_gradients(self, family: _Family, top: Array, delta: Array, found: Parameters) -> Array:
        """Write the gradients of a family's heads into `found`; return that of its top layer (f, n, h)."""
        if family.likelihood is likelihoods.gaussian_scalar:
            found["continuous.log_variance"] = delta[..., 1].sum(axis=1)
            delta = np.ascontiguousarray(delta[..., :1])
        found[f"{family.name}.weight"] = top.transpose(0, 2, 1) @ delta
        found[f"{family.name}.bias"] = _over_records(delta)
        back: Array = delta @ self._parameters[f"{family.name}.weight"].transpose(0, 2, 1)
        return back

    def _layer_gradients(self, layers: list[Array], back: Array, found: Parameters) -> Array:
        """Carry `back`, the gradient of the top layer, down to z; write all gradients on the way."""
        for layer in range(self.depth, 0, -1):
            active = layers[layer - 1]
            back *= active
            back *= 1.0 - active
            found[f"bias.{layer}"] = _over_records(back)
            if layer > 1:
                found[f"weight.{layer}"] = layers[layer - 2].transpose(0, 2, 1) @ back
                back = back @ self._parameters[f"weight.{layer}"].transpose(0, 2, 1)
        return back


def _families(variables: Sequence[Variable], variance: Variance) -> list[_Family]:
    functions: dict[VariableKind, Likelihood] = {
        "continuous": likelihoods.gaussian_head if variance == "head" else likelihoods.gaussian_scalar,
        "binary": likelihoods.bernoulli,
        "count": likelihoods.poisson,
        "categorical": likelihoods.categorical,
    }
    families = []
    for kind, function in functions.items():
        rows = np.array([row for row, variable in enumerate(variables) if variable.kind == kind], dtype=np.intp)
        if not rows.size:
            continue
        outputs, absent = _outputs(kind, variance), None
        if kind == "categorical":
            counts = np.array([len(variables[row].levels) for row in rows])
            outputs = int(counts.max())
            if (counts < outputs).any():
                absent = np.where(np.arange(outputs) < counts[:, None], 0.0, -np.inf)[:, None]
        # A slice makes views where an index makes copies, and most parties hold columns of one kind.
        whole = slice(int(rows[0]), int(rows[-1]) + 1) if np.ptp(rows) + 1 == len(rows) else rows
        families.append(_Family(kind, whole, function, outputs, absent))
    return families


def _outputs(kind: VariableKind, variance: Variance) -> int:
    return 2 if kind == "continuous" and variance == "head" else 1


def _over_records(values: Array) -> Array:
    """Sum (d, n, h) over n as a product: ten times as fast as `sum` along a middle axis."""
    total: Array = np.ones(values.shape[1]) @ values
    return total


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    bound = 1 / np.sqrt(shape[0])
    return rng.uniform(-bound, bound, size=shape)
