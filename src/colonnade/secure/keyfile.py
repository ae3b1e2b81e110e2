"""Key pairs in files: only the user can read them, and a file of another kind or with loose permissions is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from colonnade.errors import ConfigError

_MAGIC = b"colonnade key pair: "
_LARGEST = 1 << 26


def write_key(path: Path, backend: str, secret: bytes) -> None:
    """Write key material to a new file with mode 600; an existing file is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileExistsError:
        raise ConfigError("a file with this name exists", where=str(path), remedy="choose a new name") from None
    except OSError as error:
        raise ConfigError(f"cannot write a key file: {error.strerror}", where=str(path)) from None
    with os.fdopen(handle, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(_MAGIC + backend.encode() + b"\n" + secret)
        file.flush()
        os.fsync(file.fileno())


def read_key(path: Path, backend: str) -> bytes:
    """Return the key material of a file that `write_key` made for `backend`; a `ConfigError` otherwise."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise ConfigError("the key file can be read by others", where=str(path), remedy="chmod 600 it")
            content = file.read(_LARGEST)
    except OSError as error:
        raise ConfigError(f"cannot read the key file: {error.strerror}", where=str(path)) from None
    head = _MAGIC + backend.encode() + b"\n"
    if not content.startswith(head):
        raise ConfigError(f"this is no key pair of the backend '{backend}'", where=str(path))
    return content[len(head) :]
