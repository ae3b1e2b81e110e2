"""Which source a result was made with: the commit of the checkout that the package runs from."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

CHANGED = "+changes"
"""Stands behind a commit from which the package's own files differ."""
_SECONDS = 10


def source_revision(package: Path | None = None) -> str | None:
    """Return the commit of the package's source; None where there is no checkout of it, or no git.

    Args:
        package: its folder; None takes that of the running program.
    """
    folder = package or Path(str(files("colonnade")))
    try:
        # An environment may lie inside somebody else's checkout, whose commit says nothing about the package.
        if _git(folder, "ls-files", "--error-unmatch", "__init__.py").returncode:
            return None
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "diff", "--quiet", "HEAD", "--", ".").returncode
    except (OSError, subprocess.SubprocessError):
        return None
    return None if commit.returncode else commit.stdout.strip() + (CHANGED if changed else "")


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Within a hook of git, variables point to another checkout; and nothing here may take its lock.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**own, "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
