"""Masks in stock: worker processes make them in the background, since the encryption library keeps the interpreter.

A worker is a process of its own (`bfv_worker`) that gets the public key and writes masks into a pipe, raw words without
any pickling, until the pipe is closed. It never sees data.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread

import numpy as np
import seal

from colonnade.secure.bfv_masks import Mask, make_masks
from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.modular import Words
from colonnade.secure.tiles import DEGREE

STOCK = 64
"""Masks kept ready at most: 55 MB."""
MASK_WORDS = (4 * len(PRIMES) + 1) * DEGREE


class MaskPool:
    """Hands out masks, each once: from the stock where workers have made some, else made on the spot.

    Args:
        public: the owner's public key, as transformed encryptions of zero.
        octets: the same as bytes, for the workers.
        workers: number of worker processes.
    """

    def __init__(self, public: Sequence[seal.Ciphertext], octets: bytes, workers: int) -> None:
        self._public = public
        self._rest: list[Mask] = []
        self._stock: SimpleQueue[Mask] = SimpleQueue()
        self._room = Semaphore(STOCK)
        self._lock = Lock()
        self._process = os.getpid()
        processes = [_start() for _ in range(workers)]
        self._end = weakref.finalize(self, _stop, processes, self._room)
        for process in processes:
            Thread(target=_serve, args=(process, octets, self._stock, self._room), daemon=True).start()

    def take(self) -> Mask:
        """Return a mask that nobody has used."""
        if os.getpid() != self._process:  # a fork has a copy of all that is here, and its parent may use the same mask
            return make_masks(self._public[:1])[0]
        try:
            mask = self._stock.get_nowait()
        except Empty:
            return self._made_here()
        self._room.release()
        return mask

    def _made_here(self) -> Mask:
        with self._lock:
            if not self._rest:
                self._rest = make_masks(self._public)
            return self._rest.pop()

    @property
    def ready(self) -> int:
        """How many masks are in stock."""
        return self._stock.qsize()

    def close(self) -> None:
        """End the workers."""
        self._end()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "colonnade.secure.bfv_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # an interrupt at the terminal is the parent's to handle
    )


def _serve(process: subprocess.Popen[bytes], octets: bytes, stock: SimpleQueue[Mask], room: Semaphore) -> None:
    """Give a worker the public key, then move its masks to the stock until its pipe ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(octets)
    while room.acquire():
        data = process.stdout.read(8 * MASK_WORDS)
        if len(data) < 8 * MASK_WORDS:
            process.stdout.close()
            return
        stock.put(_mask(np.frombuffer(data, np.uint64)))


def _mask(words: Words) -> Mask:
    here = library()
    zero, noise = words[:-DEGREE].reshape(2, 2, len(PRIMES), DEGREE)
    return Mask(here.ciphertext(zero, transformed=True), here.ciphertext(noise), words[-DEGREE:])


def _stop(processes: list[subprocess.Popen[bytes]], room: Semaphore) -> None:
    for process in processes:
        process.kill()
        process.wait()
        room.release()
