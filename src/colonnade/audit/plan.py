"""Which cells a matrix is to have: a list beside them, so that whoever looks at the folder knows what is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import RunError
from colonnade.run import write_atomically

PLAN = "matrix-plan.json"
FORMAT = 1


@dataclass(frozen=True)
class Planned:
    """A cell that the last command asked for.

    Attributes:
        name: of its folder among the cells.
        title: what people call it.
        seed: of its model.
    """

    name: str
    title: str
    seed: int


@dataclass(frozen=True)
class Plan:
    """What the last command asked for, and how much of it the merged result beside the plan tells.

    Attributes:
        cells: all of them, in the order of the result.
        told: names of those that the merged result tells of: what they found, or why they failed.
    """

    cells: Sequence[Planned]
    told: Set[str] = frozenset()

    def save(self, folder: Path) -> None:
        """Write the plan into the folder of its matrix."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot be written: {error.strerror}", where=str(folder)) from error
        cells = [{**vars(cell), "told": cell.name in self.told} for cell in self.cells]
        write_atomically(folder / PLAN, (json.dumps({"format": FORMAT, "cells": cells}, indent=1) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Plan | None:
        """Return the plan of a folder, None where no command has left one: somebody laid the cells there by hand."""
        file = folder / PLAN
        if not file.is_file():
            return None
        try:
            listed = json.loads(file.read_bytes())["cells"]
            cells = [Planned(str(one["name"]), str(one["title"]), int(one["seed"])) for one in listed]
            return cls(cells, frozenset(str(one["name"]) for one in listed if one["told"]))
        except (KeyError, TypeError, ValueError, OSError) as error:
            remedy = "let the matrix go on, or delete the file: the cells are told without it"
            raise RunError("is damaged", where=str(file), remedy=remedy) from error
