"""Benches of reconstruction: halves of pictures, defenses and attacks, published values."""

from colonnade.bench.images import learning, tables, timing

__all__ = ["learning", "tables", "timing"]
