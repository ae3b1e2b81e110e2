"""What a federation agrees on before it looks for a causal graph."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from colonnade.federation.task import Settings


class DiscoverySettings(Settings):
    """How one causal graph is found over the columns of all parties.

    Attributes:
        secure: whether encoder weights are shared out and features computed under encryption; False shows features to
            the target party one by one, for simulations and research.
        backend: the encryption of secure runs.
        hidden: hidden units for each variable: what its decoder sees of all others.
        depth: hidden layers of a decoder.
        variance: whether a decoder predicts the spread of a number from its causes (`head`) or learns one (`scalar`).
        epochs: how often all training records come by in the search for the graph.
        refit_epochs: the same, once more, with only the candidate edges.
        batch_size: records of one exchange.
        minibatch: records of one local update inside an exchange.
        local_passes: how often a target party goes through the records of an exchange before it answers.
        learning_rate: of encoders and decoders.
        sparsity: weight of the sum of edge strengths, λ₁.
        growth: how much the weight of the acyclicity grows each epoch while there are cycles, γ.
        validate_every: exchanges between two looks of the coordinator at the graph.
        least_strength: edges below are no candidates.
        evidence: an edge stays if leaving it out would cost at least so much likelihood per record, in nats.
        validation: the share of the records that no weight is learned from.
        missing: what to do with missing values: `refuse`, or `impute` them as causes and ignore them as effects.
        standardise: whether every column is brought to unit variance; raw variances would order the graph by scale.
        reveal: whether every party learns all edges, or only those that touch its own variables.
        strength_epsilon: Laplace noise on edge strengths, spent once per look; None adds none.
        feature_noise: standard deviation of the noise that each party hides in its features; 0 adds none.
        checkpoint_every: looks of the coordinator between two checkpoints.
    """

    secure: bool = True
    backend: Literal["bfv", "paillier"] = "bfv"
    hidden: int = Field(default=5, ge=1, le=64)
    depth: int = Field(default=1, ge=1, le=3)
    variance: Literal["head", "scalar"] = "head"
    epochs: int = Field(default=500, ge=1)
    refit_epochs: int = Field(default=300, ge=0)
    batch_size: int = Field(default=320, ge=2)
    minibatch: int = Field(default=16, ge=1)
    local_passes: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=0.01, gt=0, le=1)
    sparsity: float = Field(default=0.005, ge=0)
    growth: float = Field(default=0.006, ge=0)
    validate_every: int = Field(default=3, ge=1)
    least_strength: float = Field(default=0.02, ge=0)
    evidence: float = Field(default=0.02, ge=0)
    validation: float = Field(default=0.2, ge=0, lt=1)
    missing: Literal["refuse", "impute"] = "refuse"
    standardise: bool = True
    reveal: Literal["all", "own"] = "all"
    strength_epsilon: float | None = Field(default=None, gt=0)
    feature_noise: float = Field(default=0.0, ge=0)
    checkpoint_every: int = Field(default=20, ge=1)


RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"batch_size": 16, "minibatch": 16, "validate_every": 1, "hidden": 10, "refit_epochs": 0},
}
"""Ways of training by name: `paper` is the published one, `default` needs far fewer encrypted exchanges."""
