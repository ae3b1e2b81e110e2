"""Benches of causal discovery: data with known graphs, published methods run for real, published values."""

from colonnade.bench.causal import (
    ablation,
    collusion,
    depth,
    diabetes,
    leaks,
    privacy,
    scale,
    schedule,
    stability,
    tables,
)

__all__ = ["ablation", "collusion", "depth", "diabetes", "leaks", "privacy", "scale", "schedule", "stability", "tables"]
