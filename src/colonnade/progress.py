"""How far a long call is: a bar for people, JSON lines for machines, silence elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, assert_never

from colonnade.line_file import json_line

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar

Mode = Literal["auto", "rich", "json", "silent"]


class Progress:
    """Silent progress, and the base of the others.

    Use it as a context manager; `start` may be called again for the next stage. Values that an `advance` does not name
    keep their last value on the screen. `sent_bytes` is shown as a size, any other value as a number.
    """

    def start(self, total_steps: int | None, title: str) -> None:
        """Begin a stage of `total_steps` steps, None if nobody knows how many."""

    def advance(self, step: int, **values: Any) -> None:
        """Step number `step` of the stage, counted from 1, is done; `values` are its loss, metric, `sent_bytes`."""

    def message(self, text: str) -> None:
        """Say something between two steps."""

    def close(self) -> None:
        """End the display."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RichProgress(Progress):
    """A bar with loss, metric, bytes sent and time left, on standard error unless told otherwise."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream
        self._bar: RichBar | None = None
        self._values: dict[str, Any] = {}
        self._begun = False

    def start(self, total_steps: int | None, title: str) -> None:  # noqa: D102
        self.close()
        self._bar = _rich_bar(self._stream or sys.stderr)
        self._bar.add_task(title, total=total_steps, values="")
        self._bar.start()
        self._values, self._begun = {}, False

    def advance(self, step: int, **values: Any) -> None:  # noqa: D102
        if self._bar is None:
            return
        self._values |= values
        task = self._bar.tasks[0].id
        if not self._begun:  # a resumed run starts in the middle: the time left must not count the steps before
            self._bar.reset(task, completed=step - 1)
            self._begun = True
        self._bar.update(task, completed=step, values=describe_values(self._values))

    def message(self, text: str) -> None:  # noqa: D102
        bar = self._bar or _rich_bar(self._stream or sys.stderr)
        bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:  # noqa: D102
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class JsonProgress(Progress):
    """One JSON line per event, on standard output unless told otherwise."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream

    def start(self, total_steps: int | None, title: str) -> None:  # noqa: D102
        self._write({"event": "start", "title": title, "total_steps": total_steps})

    def advance(self, step: int, **values: Any) -> None:  # noqa: D102
        self._write({"event": "step", "step": step} | values)

    def message(self, text: str) -> None:  # noqa: D102
        self._write({"event": "message", "text": text})

    def _write(self, event: dict[str, Any]) -> None:
        stream = self._stream or sys.stdout
        stream.write(json_line(event).decode() + "\n")
        stream.flush()


def make_progress(mode: Mode = "auto") -> Progress:
    """Return progress of the given mode; `auto` shows a bar on a terminal and is silent elsewhere."""
    match mode:
        case "auto":
            return RichProgress() if sys.stderr.isatty() else Progress()
        case "rich":
            return RichProgress()
        case "json":
            return JsonProgress()
        case "silent":
            return Progress()
    assert_never(mode)


def describe_values(values: dict[str, Any]) -> str:
    """Return values as one short text.

    >>> describe_values({"loss": 0.51234, "accuracy": 0.85, "sent_bytes": 2_500_000})
    'loss 0.5123 · accuracy 0.85 · 2.5 MB sent'
    """
    return " · ".join(_describe(name, value) for name, value in values.items())


def describe_bytes(size: int) -> str:
    """Return a size as people read it.

    >>> describe_bytes(999), describe_bytes(65_536), describe_bytes(3 * 10**12)
    ('999 B', '65.5 kB', '3.0 TB')
    """
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _describe(name: str, value: Any) -> str:
    if name == "sent_bytes":
        return f"{describe_bytes(value)} sent"
    if value is None or isinstance(value, str | int):
        return f"{name} {value}"
    return f"{name} {float(value):.4g}"


def _rich_bar(stream: IO[str]) -> RichBar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[values]}", markup=False),
        TimeRemainingColumn(compact=True),
        console=Console(file=stream),
    )
