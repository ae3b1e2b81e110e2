"""Synthetic records of a known causal graph, as the published tables draw them, and variations that break assumptions.

Each variable is a random network of its causes plus noise: one hidden layer of 100 sigmoid units without biases,
weights ±U(.5, 2), the causes standardised before each network, noise N(0, .5²). The graph has exactly as
many edges as asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
import numpy.typing as npt

from colonnade.errors import ConfigError
from colonnade.measure.graph import Mask

Values = npt.NDArray[np.float64]
Noise = Literal["additive", "multiplicative", "poisson", "non-iid"]

_UNITS = 100
_SPREAD = 0.5
_CLIP = 3.0  # of a standardised signal, so that no rate of a count runs away


@dataclass(frozen=True)
class Design:
    """What to draw.

    Attributes:
        variables: how many are drawn; `latent` of them are then left out of records and graph.
        edges: of the graph over all drawn variables.
        records: how many.
        noise: `additive` N(0, .5²); `multiplicative`: the signal times 1 + N(0, .5²); `poisson`: a count whose rate
            depends on the signal; `non-iid`: additive, with a spread that depends on the causes.
        unit_variance: bring every variable to unit variance before it feeds its effects, so that variances order
            nothing. As causes are standardised anyway, this draws what standardised columns of the same seed hold.
        latent: how many variables with two effects or more nobody gets to see.
    """

    variables: int
    edges: int
    records: int = 1000
    noise: Noise = "additive"
    unit_variance: bool = False
    latent: int = 0

    def __post_init__(self) -> None:
        most = self.variables * (self.variables - 1) // 2
        if not 0 <= self.edges <= most:
            raise ConfigError(f"{self.variables} variables cannot have {self.edges} edges", remedy=f"0 to {most}")


def generate(design: Design, seed: int) -> tuple[Values, Mask]:
    """Return records (records × variables) and the graph ([cause, effect]) that they were drawn from."""
    random = np.random.default_rng(seed)
    graph, order = _random_graph(design, random)
    values = np.empty((design.records, design.variables))
    for effect in order:
        signal = _signal(values[:, graph[:, effect]], random)
        drawn = _with_noise(signal, design, random)
        values[:, effect] = _standardised(drawn) if design.unit_variance else drawn
    if not design.latent:
        return values, graph
    kept = np.setdiff1d(np.arange(design.variables), _confounders(graph, design.latent, random))
    return values[:, kept], graph[np.ix_(kept, kept)]


def _random_graph(design: Design, random: np.random.Generator) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Erdős–Rényi with an exact number of edges, directed along a random order."""
    order = random.permutation(design.variables)
    earlier, later = np.triu_indices(design.variables, k=1)
    chosen = random.choice(len(earlier), size=design.edges, replace=False)
    graph = np.zeros((design.variables, design.variables), dtype=np.bool_)
    graph[order[earlier[chosen]], order[later[chosen]]] = True
    return graph, order


def _signal(causes: Values, random: np.random.Generator) -> Values | None:
    """The random network's output, None for a variable without causes."""
    if not causes.shape[1]:
        return None
    hidden = _standardised(causes) @ _weights((causes.shape[1], _UNITS), random)
    return np.asarray(_weights((_UNITS,), random) @ (1 / (1 + np.exp(-hidden))).T)


def _with_noise(signal: Values | None, design: Design, random: np.random.Generator) -> Values:
    if design.noise == "poisson":
        rate = np.exp(1 + np.clip(_standardised(signal), -_CLIP, _CLIP) / 2) if signal is not None else np.e
        return random.poisson(rate, design.records).astype(np.float64)
    noise = random.normal(0.0, _SPREAD, design.records)
    if signal is None:
        return noise
    match design.noise:
        case "additive":
            return signal + noise
        case "multiplicative":
            return signal * (1 + noise)
        case "non-iid":
            return signal + noise * (0.5 + np.abs(_standardised(signal)))
    assert_never(design.noise)


def _confounders(graph: Mask, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    able = np.flatnonzero(graph.sum(axis=1) >= 2)
    if len(able) < count:
        raise ConfigError(f"only {len(able)} variables have two effects", remedy="ask for fewer latent variables")
    return random.choice(able, size=count, replace=False)


def _weights(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    return np.asarray(random.uniform(0.5, 2.0, shape) * random.choice([-1.0, 1.0], shape))


def _standardised(values: Values) -> Values:
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))
