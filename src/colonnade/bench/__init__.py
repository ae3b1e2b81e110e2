"""Benches: each regenerates one table or figure, next to what it has to be compared with. One file a bench."""

from colonnade.bench import causal, equilibrium, images, keystone, secure_iteration, secure_matmul
from colonnade.bench.registry import BENCHES, PRESETS, Bench, Preset, Row
from colonnade.bench.result import run_bench
from colonnade.bench.workers import Workers

__all__ = [
    "BENCHES",
    "PRESETS",
    "Bench",
    "Preset",
    "Row",
    "Workers",
    "causal",
    "equilibrium",
    "images",
    "keystone",
    "run_bench",
    "secure_iteration",
    "secure_matmul",
]
