"""Encrypted linear algebra: one party's plain matrix times another's secret one, the result as additive shares."""

from __future__ import annotations

from importlib import import_module

from colonnade.secure.backend import BACKENDS, Backend, Evaluator, KeyPair, Masked, PreparedMatrix, Product

__all__ = ["BACKENDS", "Backend", "Evaluator", "KeyPair", "Masked", "PreparedMatrix", "Product", "backend"]

_MODULES = ("bfv", "paillier")


def backend(name: str = "bfv") -> type[Backend]:
    """Return the backend of this name; all are loaded now, not before, so that importing this package stays quick."""
    for module in _MODULES:
        import_module(f"{__name__}.{module}")
    return BACKENDS[name]
