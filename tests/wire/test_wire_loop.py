"""If this fails, two parties of one process may each wait for a thread that moves only the other's bytes."""

from __future__ import annotations

import functools
import threading
import time

from colonnade.wire import loop


def test_threads_that_ask_at_once_share_one_loop(monkeypatch):
    started = []

    def slow_start():
        started.append(threading.get_ident())
        time.sleep(0.05)

    monkeypatch.setattr(loop, "_keep_freed_memory", slow_start)
    monkeypatch.setattr(loop, "_started_loop", functools.cache(loop._started_loop.__wrapped__))
    found = []
    threads = [threading.Thread(target=lambda: found.append(loop.wire_loop())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        one.call_soon_threadsafe(one.stop)
    assert len(started) == 1 and len(set(map(id, found))) == 1 and len(found) == 8
