"""One thing that the doctor found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from colonnade.progress import describe_bytes

State = Literal["ok", "hint", "warning", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing about this machine, or about somebody's place in a federation.

    Attributes:
        group: what it belongs to: `packages`, `machine`, `speeds`, `extras`, `keys`, `peers`, `clocks`.
        name: what was looked at.
        value: what was found: words, or a number of `unit`s.
        unit: of the number.
        state: `broken` stops work, a `warning` may do so soon, a `hint` tells what else could be had.
        remedy: what the reader can do about it.
    """

    group: str
    name: str
    value: str | float
    unit: str = ""
    state: State = "ok"
    remedy: str = ""

    @property
    def shown(self) -> str:
        """The value as people read it.

        >>> Finding("speeds", "AES-256-GCM", 2345.678, "MB/s").shown
        '2,350 MB/s'
        >>> Finding("machine", "memory", 8e9, "bytes").shown
        '8.0 GB'
        """
        if isinstance(self.value, str):
            return self.value
        if self.unit == "bytes":
            return describe_bytes(int(self.value))
        rounded = self.value if isinstance(self.value, int) else float(f"{self.value:.3g}")
        return f"{rounded:,.12g} {self.unit}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self)
