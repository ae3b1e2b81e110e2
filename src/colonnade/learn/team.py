"""The processes of one party: the one that is the party, and its helpers, all on one host.

`torchrun` starts them. The first talks with the other parties, holds the secrets and writes the run; helpers wait for
its orders and only ever talk with it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from colonnade.errors import ConfigError, RunError

PATIENCE = timedelta(minutes=10)
"""How long a process may take over its share of one pass."""
ALWAYS = timedelta(days=365)
"""How long helpers wait for an order: the party may have to wait for others. One that dies is noticed at once."""
STOP = 0
"""The order that ends a helper's work."""
_ORDER_LENGTH = 5


class HelperLostError(RunError):
    """One process of the party is gone, so its share of the work is."""

    def __init__(self) -> None:
        what = "one of this party's processes has ended, or torchrun was stopped"
        super().__init__(what, remedy="look for its own error; then start the party again with --resume")


def team_size() -> int:
    """Return how many processes this party was started as."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_helper() -> bool:
    """Return whether this process is a helper of the one that is the party."""
    return team_size() > 1 and os.environ.get("RANK", "0") != "0"


def require_no_team(command: str) -> None:
    """Refuse to run a command several times at once that lives in one process."""
    if is_helper():
        sys.exit(ConfigError.exit_code)  # the first process says why
    if team_size() > 1:
        remedy = "start it without torchrun; only 'colonnade join' works in several processes"
        raise ConfigError(f"'colonnade {command}' is one process, not {team_size()}", remedy=remedy)


class Team:
    """All processes of this party, and how they hand numbers to each other.

    Attributes:
        size: how many there are.
        rank: which one this is; 0 is the party itself.
        ending: the team is falling apart, and its end is on its way already.
    """

    def __init__(self) -> None:
        if sys.platform == "linux":  # what is handed over stays on this host
            for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
                os.environ.setdefault(variable, "lo")
        self.ending = False
        with self._noticing():
            dist.init_process_group("gloo", timeout=PATIENCE)
            self._orders = dist.new_group(backend="gloo", timeout=ALWAYS)
        self.size, self.rank, self._work = dist.get_world_size(), dist.get_rank(), dist.group.WORLD

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.ending = True
        del self._orders, self._work  # their threads must end before the interpreter does
        dist.destroy_process_group()

    def own_device(self, kind: str) -> torch.device:
        """Return where this process computes: each has a GPU of its own."""
        return torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)

    def settle_on(self, device: torch.device) -> None:
        """Choose how tensors of `device` are handed over from now on; all processes at once."""
        if device.type == "cuda":
            torch.cuda.set_device(device)
            self._work = dist.new_group(backend="nccl", timeout=PATIENCE)

    def order(self, *numbers: int) -> None:
        """Tell all helpers what to do next."""
        padded = torch.tensor([*numbers, *[0] * (_ORDER_LENGTH - len(numbers))], dtype=torch.int64)
        with self._noticing():
            dist.broadcast(padded, 0, group=self._orders)

    def await_order(self) -> list[int]:
        """Return what the party orders next."""
        numbers = torch.zeros(_ORDER_LENGTH, dtype=torch.int64)
        with self._noticing():
            dist.broadcast(numbers, 0, group=self._orders)
        return [int(number) for number in numbers]

    def tell_all(self, tensor: Tensor) -> Tensor:
        """Give every process what the party has in `tensor`."""
        with self._noticing():
            dist.broadcast(tensor, 0, group=self._work)
        return tensor

    def send(self, tensor: Tensor, rank: int) -> None:
        """Hand `tensor` to one process."""
        with self._noticing():
            dist.send(tensor.contiguous(), rank, group=self._work)

    def receive(self, tensor: Tensor, rank: int) -> Tensor:
        """Fill `tensor` with what one process hands over."""
        with self._noticing():
            dist.recv(tensor, rank, group=self._work)
        return tensor

    def add_up(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over all processes."""
        with self._noticing():
            dist.all_reduce(tensor, group=self._work)
        return tensor

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch has no name of its own for a connection that broke or took too long
            self.ending = True
            raise HelperLostError from error


@contextmanager
def gathered(device: torch.device) -> Iterator[Team | None]:
    """Gather the helpers of this party for as long as the context lasts; None where it was started alone."""
    if team_size() == 1:
        yield None
        return
    _check_start(device)
    with Team() as team, _told_by_torchrun(team):
        try:
            yield team
        finally:
            with suppress(HelperLostError):
                team.order(STOP)


@contextmanager
def _told_by_torchrun(team: Team) -> Iterator[None]:
    """Let the run be closed in order when torchrun stops this process, as it does when another one has ended."""

    def end(number: int, frame: FrameType | None) -> None:
        if not team.ending:
            team.ending = True
            raise HelperLostError

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)  # not after an error: torchrun may be late, and its line is yet to be printed


def _check_start(device: torch.device) -> None:
    size = team_size()
    if lacking := [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        remedy = "start it with torchrun, or unset WORLD_SIZE"
        raise ConfigError(f"WORLD_SIZE is {size}, but {lacking[0]} is not set", where="environment", remedy=remedy)
    if int(os.environ.get("LOCAL_WORLD_SIZE", size)) != size:
        remedy = "start all of them on one host, with torchrun --standalone"
        raise ConfigError("this party's processes are on several hosts", where="torchrun", remedy=remedy)
    if device.type != "cuda":
        return
    if device.index is not None:
        remedy = "write cuda or auto: each process takes a GPU of its own"
        raise ConfigError(f"'{device}' is one GPU for {size} processes", where="device", remedy=remedy)
    if torch.cuda.device_count() < size:
        what = f"{size} processes need a GPU each, and there is only {torch.cuda.device_count()}"
        raise ConfigError(what, where="torchrun", remedy="start one process for each GPU: --nproc-per-node")
