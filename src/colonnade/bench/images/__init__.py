"""Benches of reconstruction: halves of pictures, defenses and attacks, published values."""

from colonnade.bench.images import learning, risk, speed, tables, timing

__all__ = ["learning", "risk", "speed", "tables", "timing"]
