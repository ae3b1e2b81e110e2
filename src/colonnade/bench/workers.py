"""Who runs the rows of a bench: this process, several of this machine, or a Ray cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from colonnade.audit.engine import Crew, engine_or_nobody, make_engine


@dataclass(frozen=True)
class Workers:
    """Who runs the rows of a bench; what no engine can be made of is an error at once.

    Attributes:
        engine: `local`, or `ray`, where each row is a task.
        jobs: rows at once; for Ray the processors of a cluster that is started here.
        address: of a Ray cluster; None starts one on this machine.
        gather: nobody: what is kept makes the table, and what is missing is named.
        kept: how many results were there already, each time somebody was asked for some.
    """

    engine: str = "local"
    jobs: int = 1
    address: str | None = None
    gather: bool = False
    kept: list[int] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        engine_or_nobody(self.engine, gather=self.gather, jobs=self.jobs, address=self.address)

    @property
    def one_by_one(self) -> Workers:
        """Those for what must not share a machine: this process, or still nobody."""
        return Workers(gather=self.gather, kept=self.kept)

    def crew(self, device: str = "cpu") -> AbstractContextManager[Crew]:
        """Open a crew that shares nothing but its jobs; on `cuda` each of Ray's tasks asks for one GPU."""
        return make_engine(self.engine, jobs=self.jobs, address=self.address, device=device)(None)


ALONE = Workers()
"""One row after the other, in this process."""
