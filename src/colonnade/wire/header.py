"""What stands in front of the buffers: the header of a frame, written and read strictly.

The JSON is that of the `safetensors` library. Of the envelope, `step` and `sequence` come first: all behind them is the
same for every message of a kind, so it is worked out once and remembered. That halves the time a small message takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from colonnade.errors import FrameError

DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
        "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
    }.items()
}  # fmt: skip
LARGEST = 10**15 - 1
_BOTH_ORDERS: tuple[Literal["<", ">"], ...] = ("<", ">")
_NAMES = {dtype.newbyteorder(order): name for name, dtype in DTYPES.items() for order in _BOTH_ORDERS}
_ENVELOPE = {"step", "sequence", "run", "sender", "kind", "meta"}
_ENTRY = {"dtype", "shape", "data_offsets"}
_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_START = re.compile(rb'\{"__metadata__":\{"step":"(0|[1-9][0-9]{0,14})","sequence":"(0|[1-9][0-9]{0,14})",')
_REMEMBERED = 256
_WORTH_REMEMBERING = 4096  # bytes; so that what is remembered stays small whatever peers send


@dataclass(frozen=True, eq=False)
class Limits:
    """What a frame may be at most; anything larger is a `FrameError` before memory is taken for it."""

    frame_bytes: int = 1 << 30
    header_bytes: int = 1 << 20
    tensors: int = 1024
    rank: int = 8
    name_length: int = 256


LIMITS = Limits()


class Tensor(NamedTuple):
    """One tensor in a header: what it is and which bytes behind the header are its own."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int = 0
    end: int = 0


class Header(NamedTuple):
    """What a header says, but for step and sequence; `size` counts the bytes behind it."""

    run: str
    sender: str
    kind: str
    meta: str
    tensors: tuple[Tensor, ...]
    size: int


def write_header(
    envelope: tuple[str, str, str, str], tensors: tuple[Tensor, ...], step: int, sequence: int, limits: Limits
) -> tuple[bytes, Header]:
    """Return the JSON of a header, padded, and the header itself with the place of every tensor.

    Args:
        envelope: run, sender, kind, meta as JSON text.
        tensors: what they are; where they go is decided here.
        step: of the message.
        sequence: of the frame.
        limits: what is allowed.
    """
    write = _write_remembered if len(envelope[3]) + 64 * len(tensors) < _WORTH_REMEMBERING else _write
    try:
        rest, header = write(envelope, tensors, limits)
    except TypeError:  # what can't be hashed is no name; this says so
        rest, header = _write(envelope, tensors, limits)
    text = b'{"__metadata__":{"step":"%d","sequence":"%d",%b' % (step, sequence, rest)
    return text + b" " * (-len(text) % 8), header


def read_header(text: bytes, limits: Limits) -> tuple[Header, int, int]:
    """Return what a header says, its step and its sequence.

    Raises:
        FrameError: whatever is wrong with it.
    """
    start = _START.match(text)
    if start is None:
        raise FrameError("the header does not start with step and sequence")
    rest = text[start.end() :].rstrip(b" ")
    read = _read_remembered if len(rest) < _WORTH_REMEMBERING else _read
    return read(rest, limits), int(start[1]), int(start[2])


def _write(envelope: tuple[str, str, str, str], tensors: tuple[Tensor, ...], limits: Limits) -> tuple[bytes, Header]:
    run, sender, kind, meta = envelope
    for value, what in ((run, "run"), (sender, "sender"), (kind, "kind")):
        check_name(value, what, limits)
    if len(tensors) > limits.tensors:
        raise FrameError(f"{len(tensors)} tensors are more than {limits.tensors}", where=kind)
    for tensor in tensors:
        check_name(tensor.name, "tensor name", limits)
        if tensor.name == "__metadata__":
            raise FrameError("a tensor may not be called '__metadata__'", where=kind)
        if tensor.dtype not in _NAMES:
            raise FrameError(f"tensor '{tensor.name}' is {tensor.dtype}, not one of {', '.join(DTYPES)}", where=kind)
        if not _fits(tensor.shape, tensor.dtype.itemsize, limits):
            what = f"tensor '{tensor.name}' of shape {tensor.shape} is too large"
            raise FrameError(what, where=kind, remedy="send it in parts; in a training, choose a smaller batch_size")
    placed, size = _place(tensors)
    found: dict[str, Any] = {"__metadata__": {"run": run, "sender": sender, "kind": kind, "meta": meta}}
    for name, dtype, shape, begin, end in placed:
        found[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": (begin, end)}
    text = ENCODER.encode(found).encode()
    return text[len(b'{"__metadata__":{') :], Header(run, sender, kind, meta, placed, size)


def _place(tensors: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], int]:
    """Wide items first: then every buffer is aligned for its dtype, and the reader need not copy it."""
    places, at = {}, 0
    for tensor in sorted(tensors, key=lambda tensor: -tensor.dtype.itemsize):
        places[tensor.name] = (at, at := at + prod(tensor.shape) * tensor.dtype.itemsize)
    return tuple(Tensor(name, dtype, shape, *places[name]) for name, dtype, shape, _, _ in tensors), at


def _read(rest: bytes, limits: Limits) -> Header:
    try:
        text = rest.decode()
    except UnicodeDecodeError:
        raise FrameError("the header is not UTF-8") from None
    found = load(f'{{"__metadata__":{{"step":"0","sequence":"0",{text}', _HEADER)
    envelope = found.pop("__metadata__", None) if isinstance(found, dict) else None
    if not isinstance(envelope, dict) or envelope.keys() != _ENVELOPE:
        raise FrameError(f"the envelope must have exactly {', '.join(sorted(_ENVELOPE))}")
    for what in ("run", "sender", "kind"):
        check_name(envelope[what], what, limits)
    if not isinstance(envelope["meta"], str):
        raise FrameError("meta is not text")
    if len(found) > limits.tensors:
        raise FrameError(f"{len(found)} tensors are more than {limits.tensors}")
    tensors = tuple([_tensor(name, entry, limits) for name, entry in found.items()])
    size = _check_places(tensors)
    return Header(envelope["run"], envelope["sender"], envelope["kind"], envelope["meta"], tensors, size)


_write_remembered = lru_cache(_REMEMBERED)(_write)
_read_remembered = lru_cache(_REMEMBERED)(_read)


def _tensor(name: str, entry: object, limits: Limits) -> Tensor:
    check_name(name, "tensor name", limits)
    if not isinstance(entry, dict) or entry.keys() != _ENTRY:
        raise FrameError(f"tensor '{name}' must have exactly dtype, shape, data_offsets")
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise FrameError(f"tensor '{name}' has a dtype that is not allowed")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_whole(shape) or not _are_whole(offsets) or len(offsets) != 2:
        raise FrameError(f"tensor '{name}' has a shape or offsets that are not whole numbers")
    if not _fits(shape, dtype.itemsize, limits):
        raise FrameError(f"tensor '{name}' has a shape that is too large")
    begin, end = offsets
    if end - begin != prod(shape) * dtype.itemsize:
        raise FrameError(f"tensor '{name}' has {end - begin} bytes, its shape and dtype need another number")
    return Tensor(name, dtype, tuple(shape), begin, end)


def _check_places(tensors: tuple[Tensor, ...]) -> int:
    at = 0
    for begin, end in sorted((tensor.begin, tensor.end) for tensor in tensors):
        if begin != at:
            raise FrameError("tensors overlap" if begin < at else "there is a gap between tensors")
        at = end
    return at


def _are_whole(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def _fits(shape: tuple[int, ...], itemsize: int, limits: Limits) -> bool:
    # Zeros are left out: a shape such as (2**40, 0) has no bytes, and still nobody can work with it.
    return len(shape) <= limits.rank and prod(n for n in shape if n) * itemsize <= limits.frame_bytes


def check_name(name: object, what: str, limits: Limits) -> None:
    """Raise a `FrameError` unless `name` is short, printable text."""
    if not isinstance(name, str) or not 0 < len(name) <= limits.name_length or not name.isprintable():
        raise FrameError(f"{what} must be printable text of 1 to {limits.name_length} characters")


def load(text: str, decoder: json.JSONDecoder) -> Any:
    """Return the value of JSON `text`.

    Raises:
        FrameError: it is no JSON, or has a key twice.
    """
    try:
        value = decoder.decode(text)
        if "\\u" in text:  # an escape may hide half a surrogate pair, which is no text
            ENCODER.encode(value).encode()
    except (ValueError, RecursionError) as error:
        raise FrameError(f"bad JSON: {error}") from None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FrameError("bad JSON: a key stands there twice")
    return found


def _whole(digits: str) -> int:
    if not _WHOLE.fullmatch(digits):
        raise FrameError("bad JSON: a number in the header is negative or huge")
    return int(digits)


def _refuse_number(digits: str) -> NoReturn:
    raise FrameError("bad JSON: a number in the header is not whole")


ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
META_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates)
_HEADER = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=_whole,
    parse_float=_refuse_number,
    parse_constant=_refuse_number,
)
