"""What is wrong with a federation, told all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from colonnade.errors import ConfigError

Severity = Literal["problem", "note"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, or, as a note, worth knowing.

    Attributes:
        what: what is wrong, in one sentence.
        file: the file concerned.
        field: the field in it, dotted.
        remedy: what the reader can do about it.
        severity: a `problem` must be solved before anything is sent, a `note` need not.
    """

    what: str
    file: Path
    field: str = ""
    remedy: str = ""
    severity: Severity = "problem"

    @property
    def where(self) -> str:
        """File and field."""
        return f"{self.file}: {self.field}" if self.field else str(self.file)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values."""
        return asdict(self) | {"file": str(self.file)}

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


class ProblemsError(ConfigError):
    """A file has problems; prints one line for each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, problems)))
