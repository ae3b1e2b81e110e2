"""Benches of Keystone: what it costs and what it leaves to the strongest readers, beside every other defense."""

from colonnade.bench.keystone import insiders, pace, table

__all__ = ["insiders", "pace", "table"]
