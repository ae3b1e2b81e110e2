"""The one thread that moves bytes: an asyncio loop for all network channels of this process.

One loop, because grpc.aio shares one completion queue per process and serves a second loop badly.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_KEPT_BYTES, _SMALL_BYTES = 32 << 20, 8 << 20


_STARTING = threading.Lock()


def wire_loop() -> asyncio.AbstractEventLoop:
    """Return the loop; its thread starts with the first call and ends with the process."""
    with _STARTING:  # a cache alone lets two threads that ask at once start two loops
        return _started_loop()


@cache
def _started_loop() -> asyncio.AbstractEventLoop:
    _keep_freed_memory()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="colonnade-wire", daemon=True).start()
    return loop


def run_on_loop(work: Coroutine[Any, Any, Result], patience: float) -> Result:
    """Run `work` on the loop and wait for its result at most `patience` seconds.

    Raises:
        TimeoutError: it took longer, and was cancelled.
    """
    future = asyncio.run_coroutine_threadsafe(work, wire_loop())
    try:
        return future.result(patience)
    except TimeoutError:
        future.cancel()
        raise


def _keep_freed_memory() -> None:
    """Let the C library keep a few megabytes that were freed, instead of giving them back after every message.

    Otherwise each tensor of a megabyte costs several hundred page faults at both ends, a quarter of its round trip.
    Whoever has set glibc's own variables knows better.
    """
    own = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not any(name in os.environ for name in own):
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _SMALL_BYTES)
