"""What the equilibrium benches compare, each with the grid of its knob from weak to strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Weighting = Literal["none", "uniform", "shapley"]


@dataclass(frozen=True)
class Method:
    """One protection, with all strengths that are tried.

    Attributes:
        name: what rows call it.
        defense: its name in the registry.
        knob: the parameter that `strengths` are values of; None has none.
        strengths: from weak to strong.
        fixed: its other parameters.
        weights: how the active party weighs the parties' gradients.
    """

    name: str
    defense: str
    knob: str | None = None
    strengths: tuple[float | None, ...] = (None,)
    fixed: tuple[tuple[str, Any], ...] = ()
    weights: Weighting = "none"

    def choice(self, strength: float | None) -> dict[str, Any]:
        """Return the defense as `train` takes it."""
        return {"name": self.defense, **dict(self.fixed), **({} if self.knob is None else {self.knob: strength})}

    def at(self, *strengths: float | None) -> Method:
        """Return the same protection with other strengths."""
        return replace(self, strengths=strengths)

    def suited_to(self, kind: str) -> Method:
        """Return the same protection with the noise that this kind of data wants, where its noise is not chosen."""
        chosen = self.defense != "nashcoder" or self.knob == "sigma" or "sigma" in dict(self.fixed)
        return self if chosen or kind not in SIGMAS else replace(self, fixed=(*self.fixed, ("sigma", SIGMAS[kind])))

    @property
    def heads_idle(self) -> bool:
        """Whether heads are trained that nobody listens to: the time that takes is no cost of the protection."""
        return ("alpha", 0.0) in self.fixed

    @property
    def thinned(self) -> Method:
        """Return the same protection with every other strength."""
        return self.at(*self.strengths[::2])

    @property
    def middle(self) -> Method:
        """Return the same protection with the strength in the middle of its grid alone."""
        return self.at(self.strengths[len(self.strengths) // 2])


SIGMAS = {"hospital": 0.5, "faces": 12.0}
"""Noise of our form where it is not 1, taken with one seed's test scores in view. A rare label bears little; a map has
a hundred times the entries of a vector, over which noise averages out."""
ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Weights sum to 1, so with two or three parties these press as much as two or three times them would without."""
PUBLISHED_ALPHAS = (0.2, 0.5, 1.0, 1.5, 2.0)
_AS_PUBLISHED = (("sigma", 0.0), ("cost", "neg_ce"))
_NOT_CLIPPED = (("mode", "paper"),)

NONE = Method("none", "none")
SHAPLEY = Method("nashcoder", "nashcoder", "alpha", ALPHAS, weights="shapley")
UNIFORM = Method("nashcoder", "nashcoder", "alpha", ALPHAS, weights="uniform")
PUBLISHED = Method("nashcoder published", "nashcoder", "alpha", PUBLISHED_ALPHAS, _AS_PUBLISHED, "shapley")
CAPPED = Method("nashcoder published, capped", "nashcoder", "alpha", PUBLISHED_ALPHAS, (("sigma", 0.0),), "shapley")
NOISE = Method("noise alone", "nashcoder", "sigma", (0.5, 1.0, 2.0, 4.0, 8.0), (("alpha", 0.0),))
GAUSSIAN = Method("dp_gaussian", "dp_gaussian", "epsilon", (1000.0, 100.0, 30.0, 10.0, 3.0))
LAPLACE = Method("dp_laplace", "dp_laplace", "epsilon", (300.0, 100.0, 30.0, 10.0, 3.0))
GAUSSIAN_PAPER = Method("dp_gaussian published", "dp_gaussian", "epsilon", (3.0, 1.0, 0.5, 0.3, 0.1), _NOT_CLIPPED)
LAPLACE_PAPER = Method("dp_laplace published", "dp_laplace", "epsilon", (1.0, 0.3, 0.1, 0.05, 0.02), _NOT_CLIPPED)
TOP_K = Method("top_k", "top_k", "kept", (0.5, 0.25, 0.1, 0.05, 0.03))
QUANTISE = Method("quantise", "quantise", "levels", (16, 8, 4, 3, 2))
_FEEDBACK = (("feedback", True),)
TOP_K_FEEDBACK = replace(TOP_K, name="top_k feedback", fixed=_FEEDBACK)
QUANTISE_FEEDBACK = replace(QUANTISE, name="quantise feedback", fixed=_FEEDBACK)

OURS = (SHAPLEY, UNIFORM)
BASELINES = (
    GAUSSIAN,
    GAUSSIAN_PAPER,
    LAPLACE,
    LAPLACE_PAPER,
    TOP_K,
    QUANTISE,
    TOP_K_FEEDBACK,
    QUANTISE_FEEDBACK,
)
ALL = (NONE, *OURS, NOISE, PUBLISHED, CAPPED, *BASELINES)
_RENEWED = (("renew_every", 100),)
OURS_FOR_PICTURES = tuple(replace(one, strengths=(0.3, 1.0, 2.0), fixed=_RENEWED) for one in OURS)
"""A head that reads maps is soon fooled, and wants to be a new one now and then; found with one seed's scores."""
NOISE_FOR_PICTURES = NOISE.at(4.0, 12.0, 24.0)
FOR_PICTURES = (
    NONE,
    *OURS_FOR_PICTURES,
    NOISE_FOR_PICTURES,
    *(one.thinned for one in (PUBLISHED, GAUSSIAN, LAPLACE, LAPLACE_PAPER, TOP_K, QUANTISE)),
)
"""Pictures take so long that fewer methods are compared, each at every other strength."""
_FEW = (NONE, SHAPLEY.at(0.2, 2.0), GAUSSIAN.at(100.0), TOP_K.at(0.1))


def methods(preset: str, chosen: Sequence[Method] = ALL) -> Sequence[Method]:
    """Return what a preset compares: a smoke run a few only."""
    return _FEW if preset == "smoke" else chosen
