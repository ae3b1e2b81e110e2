"""Benches of attribute privacy: NashCoder beside other protections, fresh attackers, published axes."""

from colonnade.bench.equilibrium import convergence, figures, fooled, local, table

__all__ = ["convergence", "figures", "fooled", "local", "table"]
