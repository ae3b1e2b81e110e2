"""Run a bench and write its result: `result.json` for machines, `table.md` for people."""

from __future__ import annotations

import inspect
import json
import shlex
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from colonnade.bench.device import describe_device, python_version
from colonnade.bench.registry import BENCHES, PRESETS, Row, presets_of
from colonnade.bench.revision import source_revision
from colonnade.bench.workers import ALONE, Workers
from colonnade.errors import ConfigError, nearest
from colonnade.progress import Progress
from colonnade.run import write_atomically

_COMMAND = ("colonnade", "bench", "run")
_PACKAGES = ("colonnade", "gmpy2", "numpy", "phe", "scikit-learn", "scipy", "seal-python", "torch")


def run_bench(name: str, preset: str, out: Path, progress: Progress, workers: Workers = ALONE) -> dict[str, Any]:
    """Run the bench `name` and write `result.json` and `table.md` into `out`; return the result.

    Benches of many rows keep each in `out`/rows as soon as it is there, and let `workers` run them.

    Raises:
        ConfigError: there is no such bench or preset, it has no rows for a cluster, or the folder cannot be written.
    """
    bench = BENCHES[name]
    presets = presets_of(bench)
    if preset not in presets:
        what = f"'{name}' has no preset '{preset}'" if preset in PRESETS else f"unknown preset '{preset}'"
        raise ConfigError(what, where="--preset", remedy=nearest(preset, presets))
    takes = inspect.signature(bench).parameters
    if workers.engine != "local" and "workers" not in takes:
        what = f"'{name}' has no rows that could run elsewhere"
        raise ConfigError(what, where="engine", remedy="choose the engine 'local'")
    if workers.gather and "workers" not in takes:
        raise ConfigError(f"'{name}' keeps no rows", where="--gather", remedy="run it without --gather")
    _make_folder(out)
    noted, workers = _Noted(progress), replace(workers, kept=[])
    if workers.engine != "local" or workers.gather:
        what = "rows were run before" if workers.gather else "rows were tasks of Ray"
        noted.message(f"{what}; the device named here is that of the machine that gathered them")
    options, made_with = {"folder": out / "rows", "workers": workers}, versions()  # files may change while it runs
    rows = bench(preset, noted, **{name: value for name, value in options.items() if name in takes})
    if workers.gather and not any(workers.kept):
        remedy = "name the folder that a run of this bench and preset wrote, or run it without --gather"
        raise ConfigError("no row is kept here", where=str(out), remedy=remedy)
    asked = ["--gather"] if workers.gather else []
    result = {
        "bench": name,
        "preset": preset,
        "command": shlex.join([*_COMMAND, name, "--preset", preset, "--out", _shown(out), *asked]),
        "versions": made_with,
        "device": describe_device(),
        "notes": noted.notes,
        "rows": rows,
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=2, allow_nan=False) + "\n").encode())
    write_atomically(out / "table.md", _page(result, (bench.__doc__ or "").strip().split("\n")[0]).encode())
    return result


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table; columns come in the order in which rows first name them.

    >>> print(table([{"backend": "phe", "n": 1000, "ratio": None}, {"backend": "bfv", "n": 16, "ratio": 8912.34}]))
    | backend | n | ratio |
    |---|---:|---:|
    | phe | 1,000 | – |
    | bfv | 16 | 8,912 |
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = [not any(isinstance(row.get(column), str) for row in rows) for column in columns]
    lines = [columns, ["---:" if right else "---" for right in numeric]]
    lines += [[_cell(row.get(column)) for column in columns] for row in rows]
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    texts[1] = texts[1].replace(" ", "")
    return "\n".join(texts)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, and the commit of the source.

    What is not here, or not known, is left out.
    """
    found = {dist.metadata["Name"].lower(): dist.version for dist in distributions()}
    commit = source_revision()
    return (
        {"python": python_version()}
        | {name: found[name] for name in _PACKAGES if name in found}
        | ({} if commit is None else {"revision": commit})
    )


class _Noted(Progress):
    """Passes everything on, and keeps what the bench says: it explains the rows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.notes: list[str] = []

    def start(self, total_steps: int | None, title: str) -> None:
        self._progress.start(total_steps, title)

    def advance(self, step: int, **values: Any) -> None:
        self._progress.advance(step, **values)

    def message(self, text: str) -> None:
        self.notes.append(text)
        self._progress.message(text)

    def close(self) -> None:
        self._progress.close()


def _page(result: dict[str, Any], summary: str) -> str:
    device = ", ".join(f"{key} {value}" for key, value in result["device"].items() if value is not None)
    versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
    notes = "".join(f"- {note}\n" for note in result["notes"])
    return (
        f"# {result['bench']}, preset {result['preset']}\n\n{summary}\n\n    {result['command']}\n\n"
        f"{table(result['rows'])}\n\n{notes}- device: {device}\n- versions: {versions}\n"
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _shown(out: Path) -> str:
    """The folder as a reader of the result may repeat it: without what is only true on this machine."""
    return out.name if out.is_absolute() or ".." in out.parts else str(out)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder cannot be made: {error.strerror}", where=str(out)) from None
