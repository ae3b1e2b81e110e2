"""Benches of Keystone: what it costs and what it leaves to the strongest readers, beside every other defense."""

from colonnade.bench.keystone import coin, insiders, pace, table

__all__ = ["coin", "insiders", "pace", "table"]
