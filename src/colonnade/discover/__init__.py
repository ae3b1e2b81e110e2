"""Causal discovery over columns that never meet: encoders, decoders, the topology validator, prior knowledge."""
