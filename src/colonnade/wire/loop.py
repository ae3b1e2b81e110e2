"""The one thread that moves bytes: an asyncio loop for all network channels of this process.

One loop, because grpc.aio shares one completion queue per process and serves a second loop badly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")


@cache
def wire_loop() -> asyncio.AbstractEventLoop:
    """Return the loop; its thread starts with the first call and ends with the process."""
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
