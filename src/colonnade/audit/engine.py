"""Where the cells of a matrix or the rows of a bench are computed: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from colonnade.errors import ConfigError, nearest
from colonnade.strength import number

Work = Callable[[Any, Any], Any]
"""Takes what all jobs share, and a job; a module's function, so that other processes find it by its name."""

Crew = Callable[[Work, Sequence[Any]], Iterator[tuple[int, Any]]]
"""Does jobs; yields the number and the outcome of each as soon as it is done, in no order."""

Engine = Callable[[Any], AbstractContextManager[Crew]]
"""Takes what all jobs share, hands it to every process once, and opens a crew."""

Kind = TypeVar("Kind")

ENGINES = ("local", "ray")
PATIENCE = 5
"""Seconds for a cluster to answer its door."""
_HOST_AND_PORT = re.compile(r"(?:ray://)?\[?(?P<host>[^][/]+)\]?:(?P<port>[0-9]+)")


def make_engine(name: str, *, jobs: int = 1, address: str | None = None, device: str = "cpu") -> Engine:
    """Return the engine that `name` names.

    Args:
        name: `local` or `ray`.
        jobs: processes at once; for Ray the processors of a cluster that is started here.
        address: of a Ray cluster, as `ray.init` takes it; None starts one on this machine.
        device: where jobs compute; on `cuda` each of Ray's tasks asks for one GPU.
    """
    if name not in ENGINES:
        raise ConfigError(f"unknown engine '{name}'", where="engine", remedy=nearest(name, ENGINES))
    number("jobs", jobs, at_least=1, whole=True)
    if name == "ray":
        ray = _ray()
        if address is None and not ray.is_initialized():
            _require_gpu(device)  # a cluster that is started here has this machine's GPUs: tasks would wait for more
        return partial(ray_crew, address=address, jobs=jobs, gpus=int(device.startswith("cuda")))
    if address is not None:
        raise ConfigError("an address is for a cluster", where="address", remedy="choose the engine 'ray'")
    _require_gpu(device)
    return partial(local_crew, jobs=jobs)


def engine_or_nobody(
    name: str, *, gather: bool, jobs: int = 1, address: str | None = None, device: str = "cpu"
) -> Engine | None:
    """Return the engine that `name` names; None where what is kept is only gathered, and nobody is to work."""
    if not gather:
        return make_engine(name, jobs=jobs, address=address, device=device)
    if (name, address) != ("local", None):
        raise ConfigError("nobody is needed to gather", where="--gather", remedy="leave engine and address out")
    return None


@contextmanager
def telling_what_is_kept(work: Sequence[Kind], is_kept: Callable[[Kind], bool], what: str) -> Iterator[None]:
    """Let whoever interrupts hours of work know that they were not in vain."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        kept = sum(map(is_kept, work))
        interruption.add_note(f"{kept} of {len(work)} {what} are kept; the same command goes on from there")
        raise


def _require_gpu(device: str) -> None:
    if device != "cpu":
        from colonnade.nets.device import require_device  # loads torch: benches are listed without

        require_device(device)


@contextmanager
def local_crew(shared: Any, jobs: int = 1) -> Iterator[Crew]:
    """Work on this machine: in `jobs` processes, or in this one where it is one."""
    if jobs == 1:
        yield lambda work, todo: ((place, work(shared, job)) for place, job in enumerate(todo))
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_remember, initargs=(shared,)) as pool:

        def run(work: Work, todo: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            places = {pool.submit(_work_here, work, job): place for place, job in enumerate(todo)}
            yield from ((places[done], done.result()) for done in as_completed(places))

        try:
            yield run
        finally:
            pool.shutdown(cancel_futures=True)  # after an error nobody waits for the rest


@contextmanager
def ray_crew(shared: Any, address: str | None = None, jobs: int | None = None, gpus: float = 0) -> Iterator[Crew]:
    """Work on a Ray cluster: every job is a task."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _join(ray, address, jobs)
    try:
        everywhere = ray.put(shared)  # records travel once, not with every task

        def run(work: Work, todo: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            task = ray.remote(num_gpus=gpus)(work)
            places = {task.remote(everywhere, job): place for place, job in enumerate(todo)}
            waiting = list(places)
            while waiting:
                done, waiting = ray.wait(waiting)
                yield from ((places[one], ray.get(one)) for one in done)

        yield run
    finally:
        if started:
            ray.shutdown()


def _join(ray: Any, address: str | None, jobs: int | None) -> None:
    silent = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # "local" is one of our own; without it Ray would join whatever cluster it finds on this machine.
        ray.init(address="local", num_cpus=jobs, include_dashboard=False, **silent)
        return
    try:
        _knock(address)
        ray.init(address=address, **silent)
    except (ConnectionError, ValueError) as error:
        remedy = "start one with 'ray start --head', have its token, or leave the address out"
        raise ConfigError(f"no Ray cluster can be joined at '{address}'", where="address", remedy=remedy) from error


def _knock(address: str) -> None:
    """Raise where nobody listens: Ray itself would try for two minutes, and say nothing."""
    named = _HOST_AND_PORT.fullmatch(address)
    if named is None:  # `auto` and its like: Ray looks around, and knows at once
        return
    try:
        socket.create_connection((named["host"], int(named["port"])), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:  # OverflowError: no such port
        raise ConnectionError(f"nobody listens at {address}") from error


def _ray() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        remedy = "pip install 'colonnade[ray]', or choose the engine 'local'"
        raise ConfigError("Ray is not installed", where="engine", remedy=remedy) from error


_held: list[Any] = []
"""What this process was handed when it was started for a pool."""


def _remember(shared: Any) -> None:
    _held[:] = [shared]
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when the one that started it is gone: a pool's processes outlive a kill, and would work on."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work_here(work: Work, job: Any) -> Any:
    return work(_held[0], job)
