"""The ledger: a party's own record of everything that left it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from colonnade.errors import RunError
from colonnade.line_file import LineFile

if TYPE_CHECKING:
    import pandas as pd

GENESIS = "0" * 64
_HASH_KEY = b',"hash":"'
_HASH_TAIL = len(_HASH_KEY) + 64 + len(b'"}')


class Sent(Protocol):
    """What the ledger needs to know of a message; `colonnade.wire.message.Message` is one."""

    @property
    def kind(self) -> str:
        """What the message is."""

    @property
    def step(self) -> int:
        """The step it belongs to."""

    @property
    def tensors(self) -> Mapping[str, Any]:
        """Named numpy arrays."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Small JSON values."""


class _Chain(NamedTuple):
    messages: int
    sent_bytes: int
    head: str


class Ledger:
    """A hash-chained record of every message that left a party; one JSON line each.

    A line holds: number, step, kind, to, tensors (name -> dtype and shape), bytes of the tensors, bytes of the meta
    values, digest (BLAKE2b-16 of the tensor bytes in order, then of the meta values if there are any), the running
    total of bytes, the previous line's hash and its own hash. The contents themselves are not kept.

    A changed, swapped or missing line breaks the chain. Lines missing at the end are noticed only by comparing `head`
    with a copy kept elsewhere; `Run.finish` keeps one in `result.json`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lines = LineFile(self.path)
        self._lock = threading.Lock()
        self._chain: _Chain | None = None

    def record(self, to: str, message: Sent) -> None:
        """Add one message that has left for `to`. Fits `Channel.observe`; may be called from any thread."""
        digest, size = blake2b(digest_size=16), 0
        tensors = {}
        for name, tensor in message.tensors.items():
            view = memoryview(tensor)
            digest.update(view if view.c_contiguous else tensor.tobytes())
            size += view.nbytes
            tensors[name] = (str(tensor.dtype), tensor.shape)
        meta = _encode(message.meta) if message.meta else b""
        digest.update(meta)
        with self._lock:
            chain = self._continue()
            number, total = chain.messages + 1, chain.sent_bytes + size
            body = _encode(
                {
                    "number": number,
                    "step": message.step,
                    "kind": message.kind,
                    "to": to,
                    "tensors": tensors,
                    "bytes": size,
                    "meta": len(meta),
                    "digest": digest.hexdigest(),
                    "total": total,
                    "previous": chain.head,
                }
            )
            head = blake2b(body, digest_size=32).hexdigest()
            self._lines.append(body[:-1] + _HASH_KEY + head.encode() + b'"}')
            self._chain = _Chain(number, total, head)

    @property
    def messages(self) -> int:
        """How many messages have been recorded."""
        return self._end().messages

    @property
    def sent_bytes(self) -> int:
        """How many tensor bytes have left so far."""
        return self._end().sent_bytes

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._end().head

    def verify(self) -> None:
        """Check the whole chain; raise `RunError` at the first line that was changed, moved or lost."""
        head, number = GENESIS, 0
        for number, line in enumerate(self._lines, start=1):
            if not _is_sealed(line):
                raise self._broken(number, "was changed")
            entry = self._read(line)
            if entry.get("previous") != head or entry.get("number") != number:
                raise self._broken(number, "does not follow the line before it")
            head = entry["hash"]
        self._refuse_changed_end(number + 1)

    def summary(self) -> pd.DataFrame:
        """Return how much of each kind went to whom: kind, to, messages, bytes."""
        import pandas as pd

        totals: dict[tuple[str, str], list[int]] = {}
        for line in self._lines:
            entry = self._read(line)
            total = totals.setdefault((entry["kind"], entry["to"]), [0, 0])
            total[0] += 1
            total[1] += entry["bytes"]
        rows = [(kind, to, messages, size) for (kind, to), (messages, size) in totals.items()]
        return pd.DataFrame(rows, columns=["kind", "to", "messages", "bytes"])

    def flush(self) -> None:
        """Make sure that all records are on the disk, also if the power fails."""
        with self._lock:
            self._lines.flush()

    def close(self) -> None:
        """Flush and release the file; a later `record` opens it again."""
        with self._lock:
            self._lines.close()

    def __repr__(self) -> str:
        return f"Ledger of {self.messages} messages, {self.sent_bytes} bytes ({self.path})"

    def _continue(self) -> _Chain:
        """Return where the chain stands, for the next record to join it."""
        if self._chain is None:
            self._chain = self._end()
            self._refuse_changed_end(self._chain.messages + 1)
        return self._chain

    def _end(self) -> _Chain:
        if self._chain is not None:
            return self._chain
        last = self._lines.last()
        if last is None:
            return _Chain(0, 0, GENESIS)
        entry = self._read(last)
        if not _is_sealed(last):
            raise RunError("the last line was changed", where=str(self.path), remedy=_REMEDY)
        return _Chain(entry["number"], entry["total"], entry["hash"])

    def _refuse_changed_end(self, number: int) -> None:
        """Tell a changed last line end from a torn line: only the torn one may be cut off."""
        if _is_sealed(self._lines.torn()[:-1]):
            raise self._broken(number, "was changed")

    def _read(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise RunError("holds a line that is no ledger entry", where=str(self.path), remedy=_REMEDY) from error
        if not (isinstance(entry, dict) and entry.keys() >= _FIELDS):
            raise RunError("holds a line that is no ledger entry", where=str(self.path), remedy=_REMEDY)
        return entry

    def _broken(self, number: int, how: str) -> RunError:
        return RunError(f"line {number} {how}", where=str(self.path), remedy=_REMEDY)


_REMEDY = "the ledger can no longer be trusted from there on; restore the file from a backup"
_FIELDS = {"number", "kind", "to", "bytes", "total", "previous", "hash"}


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()


def _is_sealed(line: bytes) -> bool:
    """Whether `line` ends with the hash of everything before it."""
    body, seal = line[:-_HASH_TAIL] + b"}", line[-_HASH_TAIL:]
    return seal == _HASH_KEY + blake2b(body, digest_size=32).hexdigest().encode() + b'"}'
