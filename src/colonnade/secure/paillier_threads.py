"""Big-number work on several cores: threads, because gmpy2 lets go of the interpreter while it multiplies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import gmpy2

Item = TypeVar("Item")
Made = TypeVar("Made")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[Sequence[Item]], list[Made]], items: Sequence[Item], threads: int) -> list[Made]:
    """Return `work` of all items, cut into one stretch a thread; the results keep the items' order."""
    stretch = -(-len(items) // max(1, threads))
    if stretch >= len(items):
        return work(items)
    stretches = [items[start : start + stretch] for start in range(0, len(items), stretch)]
    with ThreadPoolExecutor(len(stretches), initializer=_release_interpreter) as pool:
        return [made for part in pool.map(work, stretches) for made in part]


def _release_interpreter() -> None:
    gmpy2.get_context().allow_release_gil = True
