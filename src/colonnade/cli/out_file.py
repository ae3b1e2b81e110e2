"""A file that a command writes at its end is looked at before it begins."""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import ConfigError


def require_out_file(out: Path, example: str) -> None:
    """Raise unless a file can be written at `out`; `example` is what could be named in a folder, such as `a .csv file`.

    The command before it may take hours, and all parties are there for it.
    """
    from colonnade.run import require_folder

    if out.is_dir():
        raise ConfigError(f"{out} is a folder", where="--out", remedy=f"name {example} in it")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent}", where="--out", remedy="make it, or name another")
    require_folder(out.parent)
