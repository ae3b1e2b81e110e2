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
        epochs: how often all records come by in the search for the graph.
        refit_epochs: the same, once more, with only the candidate edges; 0 leaves the refit out.
        batch_size: records of one exchange; all of them, if there are no more.
        minibatch: records of one local update of the decoders inside an exchange.
        local_passes: how often a target party goes through the records of an exchange before it answers.
        learning_rate: of one exchange, for encoders and decoders.
        momentum: of the encoders; the target party keeps it for each record.
        warm_up: the share of the search in which the encoders' learning rate rises.
        sparsity: weight of the sum of edge strengths in the search, λ₁.
        refit_sparsity: the same in the refit.
        growth: how much the weight of acyclicity grows per unit of learning while there are cycles, γ.
        validate_every: exchanges between two looks of the coordinator at the graph.
        least_strength: edges below are no candidates.
        least_worth: candidates below are dropped half-way through the refit; None takes half of what `evidence` is.
        rule: which edges stay: `worth` keeps those that prediction would miss, `strength` all candidates.
        evidence: the least worth of an edge that stays, in nats a record; None takes it from the worths of all edges.
        missing: what to do with missing values: `refuse`, or `impute` them as causes and ignore them as effects.
        standardise: whether every column is brought to unit variance; raw variances would order the graph by scale.
        reveal: whether every party learns all edges, or only those that touch its own variables.
        strength_epsilon: Laplace noise on edge strengths and worths, spent once per look; None adds none.
        feature_noise: standard deviation of the noise that each party hides in its features; 0 adds none.
        held_out: share of the records that nothing is learned from: what each party's columns contribute is judged on
            them, and each target party sees every other party's features of them apart. 0 leaves that out.
        checkpoint_every: looks of the coordinator between two checkpoints.
    """

    secure: bool = True
    backend: Literal["bfv", "paillier"] = "bfv"
    hidden: int = Field(default=5, ge=1, le=64)
    depth: int = Field(default=1, ge=1, le=3)
    variance: Literal["head", "scalar"] = "head"
    epochs: int = Field(default=400, ge=1)
    refit_epochs: int = Field(default=400, ge=0)
    batch_size: int = Field(default=1024, ge=2)
    minibatch: int = Field(default=16, ge=1)
    local_passes: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=0.4, gt=0, le=10)
    momentum: float = Field(default=0.7, ge=0, lt=1)
    warm_up: float = Field(default=0.05, ge=0, lt=1)
    sparsity: float = Field(default=0.003, ge=0)
    refit_sparsity: float = Field(default=0.005, ge=0)
    growth: float = Field(default=0.0094, ge=0)
    validate_every: int = Field(default=10, ge=1)
    least_strength: float = Field(default=0.02, ge=0)
    least_worth: float | None = Field(default=None, ge=0)
    rule: Literal["worth", "strength"] = "worth"
    evidence: float | None = Field(default=None, ge=0)
    missing: Literal["refuse", "impute"] = "refuse"
    standardise: bool = True
    reveal: Literal["all", "own"] = "all"
    strength_epsilon: float | None = Field(default=None, gt=0)
    feature_noise: float = Field(default=0.0, ge=0)
    held_out: float = Field(default=0.0, ge=0, le=0.5)
    checkpoint_every: int = Field(default=4, ge=1)


RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "hidden": 10,
        "epochs": 500,
        "refit_epochs": 0,
        "batch_size": 16,
        "learning_rate": 0.01,
        "momentum": 0.0,
        "warm_up": 0.0,
        "sparsity": 0.005,
        "growth": 0.012,  # .006 an epoch of 50 exchanges
        "validate_every": 1,
        "least_strength": 0.1,
        "rule": "strength",
    },
}
"""Ways of training by name: `paper` is the published one, `default` needs far fewer encrypted exchanges."""
