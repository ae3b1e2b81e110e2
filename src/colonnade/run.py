"""The run folder: config, metrics, checkpoints, ledger, result."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, cast

import yaml

from colonnade.errors import ConfigError, RunError, nearest
from colonnade.ledger import GENESIS, Ledger
from colonnade.line_file import LineFile, json_line, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ledger", "Run", "Status", "party_runs", "require_folder", "write_atomically"]

Status = Literal["running", "finished", "failed", "interrupted"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_IDENTITY, _CONFIG, _METRICS, _RESULT = "run.json", "config.yaml", "metrics.jsonl", "result.json"
_SECRET, _ORDER_SECRET = "secret", "order.secret"
_SECRET_BYTES = 32
_LOCK_TRIES, _LOCK_PAUSE = 50, 0.01
"""Whoever only looks at a run holds its lock for a moment."""


class Run:
    """One execution and its folder.

    The process that writes a run holds a lock on its `run.json`. The lock ends with the process however that ends, so
    `status` is right even after a kill, and no two processes can write one run.

    Attributes:
        path: the folder.
        name: its name.
        started: when it was created.
        command: what was typed to start it, None where it was not the command line.
        ledger: everything that left this party.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        identity = _read_json(path / _IDENTITY)
        try:
            self.started = datetime.fromisoformat(identity["started"])
        except (KeyError, ValueError, TypeError) as error:
            raise _damaged(path / _IDENTITY) from error
        self.command = str(identity["command"]) if identity.get("command") else None
        self.ledger = Ledger(path / "ledger.jsonl")
        self._metrics = LineFile(path / _METRICS)
        self._lock: BinaryIO | None = None

    @classmethod
    def create(cls, name: str | None, config: dict[str, Any], root: Path | str = "runs") -> Run:
        """Make the folder of a new run; `None` takes a readable name that is not in use.

        Args:
            name: the run's name, also the folder's.
            config: the resolved settings: plain values, lists and mappings.
            root: the folder that holds the runs.
        """
        now = datetime.now(UTC)
        if name is None:
            name = _unused_name(now, Path(root))
        if not _NAME.fullmatch(name):
            raise RunError(f"'{name}' is no name for a run", remedy="use letters, digits, '.', '-' and '_'")
        path = Path(root) / name
        if path.exists():
            raise RunError("this run exists already", where=str(path), remedy="choose another name, or resume it")
        identity = {"name": name, "started": now.isoformat(), "version": version("colonnade"), "command": _command()}
        _make_folder(path, config, identity)
        run = cls(path)
        run._own()
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open an existing run to read it."""
        path = Path(path)
        if not (path / _IDENTITY).is_file():
            siblings = [folder.parent.name for folder in path.parent.glob(f"*/{_IDENTITY}")]
            remedy = nearest(path.name, siblings) if siblings else "'colonnade runs' lists the runs of a folder"
            raise RunError("is no run folder", where=str(path), remedy=remedy)
        return cls(path)

    @classmethod
    def resume(cls, path: Path | str, config: dict[str, Any] | None = None) -> Run:
        """Open an existing run to continue it; an error if another process is still writing it.

        A finished run keeps its result until another one replaces it: the others may never come.

        Args:
            path: its folder.
            config: the settings it goes on with. A run that holds neither a result nor a checkpoint begins anew, and
                they take the place of those it was created with.
        """
        run = cls.open(path)
        run._own()
        if (run.path / _RESULT).exists() and run._ending()["status"] == "finished":
            return run
        (run.path / _RESULT).unlink(missing_ok=True)
        if config is not None and not any(run.checkpoints.glob("*")):
            write_atomically(run.path / _CONFIG, _as_yaml(config, run.path))
        return run

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def secret(self) -> bytes:
        """What only this party knows in this run: drawn when it is first asked for, and the same when it is resumed.

        Noise and first weights come from it, so nobody else can compute them. A secret of several runs would give all
        of them the same noise, which the difference of two uploads is free of.
        """
        self._own()
        path = self.path / _SECRET
        if not path.exists():
            _write_secret(path, secrets.token_bytes(_SECRET_BYTES))
        return _read_secret(path)

    @property
    def order_secret(self) -> bytes:
        """The first secret of the run, which the order of imputed records comes from; it stays when another is drawn.

        Whoever has to align once more, after the run has begun anew, gets the order again that the others remember.
        """
        path = self.path / _ORDER_SECRET
        return _read_secret(path) if path.exists() else self.secret

    def renew_secret(self) -> bytes:
        """Draw another secret for a run that begins anew, and return it.

        What is uploaded may be something else than in the attempt before: under the same noise, the difference of the
        two would be free of it.
        """
        order = self.path / _ORDER_SECRET
        if not order.exists():
            _write_secret(order, self.secret)
        self._own()
        _write_secret(self.path / _SECRET, secrets.token_bytes(_SECRET_BYTES))
        return self.secret

    @property
    def config(self) -> dict[str, Any]:
        """The resolved settings that the run began with."""
        path = self.path / _CONFIG
        try:
            config = yaml.safe_load(path.read_text("utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise _damaged(path) from error
        if not isinstance(config, dict):
            raise _damaged(path)
        return config

    @property
    def status(self) -> Status:
        """`running` while a process writes it, then what `result.json` says, else `interrupted`."""
        status = self._ending()["status"] if (self.path / _RESULT).exists() else "interrupted"
        if status not in ("finished", "failed", "interrupted"):
            raise _damaged(self.path / _RESULT)
        return "running" if self._lock is not None or self._is_written_elsewhere() else cast(Status, status)

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` was given, None for a run that has not finished; when resumed, that of the time before."""
        return self._ending()["result"] if (self.path / _RESULT).exists() else None

    @property
    def reason(self) -> str | None:
        """Why the run failed or was interrupted, if it could still say so."""
        return self._ending()["reason"] if (self.path / _RESULT).exists() else None

    def log(self, step: int, **values: Any) -> None:
        """Append one line of numbers to the metrics; NaN and infinity are written as null."""
        self._own()
        self._metrics.append(json_line({"step": step} | values))

    def metrics(self) -> pd.DataFrame:
        """Return one row per step. Where a resumed run repeats steps, the later values stand."""
        import pandas as pd

        steps: dict[int, dict[str, Any]] = {}
        newest = -1
        for number, line in enumerate(self._metrics, start=1):
            try:
                values = json.loads(line)
                step = int(values["step"])
            except (ValueError, KeyError, TypeError) as error:
                raise _damaged(self.path / _METRICS, number) from error
            if step < newest:
                steps = {known: row for known, row in steps.items() if known <= step}
            steps.setdefault(step, {}).update(values)
            newest = step
        return pd.DataFrame(list(steps.values()), columns=None if steps else ["step"])

    def finish(self, result: dict[str, Any]) -> None:
        """Write `result.json` and let the run go: it is finished."""
        self._end("finished", result, None)

    def fail(self, reason: str) -> None:
        """Write down that the run failed, and why, and let it go."""
        self._end("failed", None, reason)

    def verify_ledger(self) -> None:
        """Check the ledger's chain and, once the run has ended, that no line of it is missing at its end."""
        self.ledger.verify()
        if (self.path / _RESULT).exists() and not self._has_line(self._ending()["ledger"]):
            raise RunError(
                "does not end with the line that the result names, nor go on after it",
                where=str(self.ledger.path),
                remedy="lines were removed after the run ended; restore the file from a backup",
            )

    def close(self) -> None:
        """Put everything on the disk and let other processes write this run."""
        self.ledger.close()
        self._metrics.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not (self.path / _RESULT).exists():
            status: Status = "failed" if isinstance(error, Exception) else "interrupted"
            self._end(status, None, str(error) or type(error).__name__)
        self.close()

    def __repr__(self) -> str:
        return f"Run {self.name}: {self.status} ({self.path})"

    def _own(self) -> None:
        if self._lock is not None:
            return
        lock = (self.path / _IDENTITY).open("rb")
        if not _take_lock(lock):
            lock.close()
            remedy = "wait until it ends, or stop it"
            raise RunError("another process is writing this run", where=str(self.path), remedy=remedy)
        self._lock = lock

    def _is_written_elsewhere(self) -> bool:
        with (self.path / _IDENTITY).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _has_line(self, head: str) -> bool:
        """Whether the ledger has come by `head`; a finished run that was resumed may have sent more since."""
        sealed = f'"hash":"{head}"}}'.encode()
        return head in (self.ledger.head, GENESIS) or any(line.endswith(sealed) for line in LineFile(self.ledger.path))

    def _end(self, status: Status, result: dict[str, Any] | None, reason: str | None) -> None:
        self._own()
        self.ledger.flush()
        ending = {
            "status": status,
            "reason": reason,
            "ended": datetime.now(UTC).isoformat(),
            "sent_bytes": self.ledger.sent_bytes,
            "ledger": self.ledger.head,
            "result": plain(result),
        }
        write_atomically(self.path / _RESULT, json.dumps(ending, indent=2).encode())
        self.close()

    def _ending(self) -> dict[str, Any]:
        ending = _read_json(self.path / _RESULT)
        if not {"status", "reason", "ledger", "result"} <= ending.keys():
            raise _damaged(self.path / _RESULT)
        return ending


def party_runs(
    root: Path | str | None, parties: Iterable[str], config: dict[str, Any], resume: bool
) -> Iterator[tuple[str, Run]]:
    """Yield one run per party of a simulation under `root`, as if each had its own machine; none without `root`."""
    if root is None:
        if resume:
            raise ConfigError("nothing to resume from", where="run", remedy="name the run folder")
        return
    for party in parties:
        own = {**config, "party": party}
        yield party, Run.resume(Path(root) / party, own) if resume else Run.create(party, own, root)


def require_folder(path: Path) -> None:
    """Raise unless files can be put into a folder at `path`; nothing is left of the attempt.

    For whoever computes first and writes afterwards: hours of work should not end at a folder that can't be made.
    """
    new = []
    try:
        new = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        # A real file: that a folder can be written can't be read off its mode.
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        what = f"no folder can be written here: {error.strerror}"
        raise ConfigError(what, where=str(path), remedy="name another folder") from error
    finally:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, now or after a crash, sees all of it or nothing of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _command() -> str | None:
    """Return what was typed, if this process was started as `colonnade`, for whoever wants to repeat it."""
    program = Path(sys.argv[0]).name
    return shlex.join([program, *sys.argv[1:]]) if program == "colonnade" else None


def _as_yaml(config: dict[str, Any], path: Path) -> bytes:
    try:
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode()
    except yaml.YAMLError as error:
        remedy = "give plain values, lists and mappings"
        raise RunError("the config holds a value that YAML cannot hold", where=str(path), remedy=remedy) from error


def _unused_name(now: datetime, root: Path) -> str:
    """A name that tells when the run began; two runs of one second may draw the same four digits, and draw again."""
    while True:
        name = f"{now.astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not (root / name).exists():
            return name


def _make_folder(path: Path, config: dict[str, Any], identity: dict[str, str | None]) -> None:
    """Fill the folder under another name first, so that a half-made run never shows."""
    text = _as_yaml(config, path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        (temporary / "checkpoints").mkdir(parents=True)
        write_atomically(temporary / _CONFIG, text)
        write_atomically(temporary / _IDENTITY, json.dumps(identity, indent=2).encode())
        temporary.rename(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(f"the run folder cannot be made: {error.strerror}", where=str(path)) from error


def _take_lock(file: BinaryIO) -> bool:
    """Lock `file` for this process alone; return False where another process keeps it."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE)
        else:
            return True
    return False


def _write_secret(path: Path, secret: bytes) -> None:
    """Write a secret for the owner's eyes alone: it is on the disk before anything that is drawn from it is sent."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)  # of a process that was killed; its mode may be another
        partial.touch(mode=0o600)
        with partial.open("wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _read_secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(secret) != _SECRET_BYTES:
        raise _damaged(path)
    return secret


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(value, dict):
        raise _damaged(path)
    return value


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(f"cannot be written: {error.strerror}", where=str(path))


def _damaged(path: Path, line: int | None = None) -> RunError:
    what = f"line {line} is damaged" if line else "is missing" if not path.exists() else "is damaged"
    return RunError(what, where=str(path), remedy="restore the file from a backup, or start the run again")
