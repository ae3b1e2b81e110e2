"""Benches of causal discovery: data with known graphs, published methods run for real, published values."""

from colonnade.bench.causal import tables

__all__ = ["tables"]
