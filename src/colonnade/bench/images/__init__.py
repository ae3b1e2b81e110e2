"""Benches of reconstruction: halves of pictures, defenses and attacks, published values."""

from colonnade.bench.images import classes, deployment, learning, risk, speed, steering, tables, timing

__all__ = ["classes", "deployment", "learning", "risk", "speed", "steering", "tables", "timing"]
