"""Messages as bytes: safetensors frames, read strictly and without a copy.

The layout is that of the `safetensors` library: eight bytes with the length of the header, the header as JSON, then the
raw buffers. The envelope (run, sender, kind, step, sequence, meta) lies in the header's `__metadata__`. The library
itself copies every buffer twice, so the header is read here; nothing is accepted that the library would refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from colonnade.errors import FrameError
from colonnade.wire.message import Array, Message

DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
        "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
    }.items()
}  # fmt: skip
_BOTH_ORDERS: tuple[Literal["<", ">"], ...] = ("<", ">")
_NAMES = {dtype.newbyteorder(order): name for name, dtype in DTYPES.items() for order in _BOTH_ORDERS}
_ENVELOPE = {"run", "sender", "kind", "step", "sequence", "meta"}
_ENTRY = {"dtype", "shape", "data_offsets"}
_WHOLE = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_PREFIX = 8
LARGEST_STEP = 10**15


@dataclass(frozen=True)
class Limits:
    """What a frame may be at most; anything larger is a `FrameError` before memory is taken for it."""

    frame_bytes: int = 1 << 30
    header_bytes: int = 1 << 20
    tensors: int = 1024
    rank: int = 8
    name_length: int = 256


class Frame(NamedTuple):
    """One encoded message: buffers that lie one behind the other on the wire; arrays are not copied."""

    buffers: tuple[memoryview, ...]
    size: int

    def parts(self, start: int, length: int) -> Sequence[memoryview]:
        """Return views that together are bytes `start` to `start + length` of the frame."""
        if length == self.size:
            return self.buffers
        stop, at, views = start + length, 0, []
        for buffer in self.buffers:
            low, high = max(start - at, 0), min(stop - at, len(buffer))
            if low < high:
                views.append(buffer[low:high])
            at += len(buffer)
        return views

    def tobytes(self) -> bytes:
        """Return the whole frame as one copy."""
        return b"".join(self.buffers)


def check_message(message: Message, limits: Limits) -> None:
    """Raise a `FrameError` unless `message` can be put into a frame."""
    _check_name(message.run, "run", limits)
    _check_name(message.sender, "sender", limits)
    _check_name(message.kind, "kind", limits)
    step = message.step
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= LARGEST_STEP:
        raise FrameError(f"step must be a whole number from 0 to {LARGEST_STEP}, not {step!r}", where=message.kind)
    if len(message.tensors) > limits.tensors:
        raise FrameError(f"{len(message.tensors)} tensors are more than {limits.tensors}", where=message.kind)
    for name, tensor in message.tensors.items():
        _check_name(name, "tensor name", limits)
        if name == "__metadata__":
            raise FrameError("a tensor may not be called '__metadata__'", where=message.kind)
        if not isinstance(tensor, np.ndarray | np.generic) or tensor.dtype not in _NAMES:
            what = getattr(tensor, "dtype", type(tensor).__name__)
            raise FrameError(f"tensor '{name}' is {what}, not a numpy array of {', '.join(DTYPES)}", where=message.kind)
        if not _fits(tensor.shape, tensor.itemsize, limits):
            raise FrameError(f"tensor '{name}' of shape {tensor.shape} is too large", where=message.kind)


def encode_meta(meta: Mapping[str, Any], limits: Limits) -> str:
    """Return `meta` as JSON text; non-finite floats are kept, anything that is not JSON is a `FrameError`."""
    if not meta:
        return "{}"
    try:
        text = _ENCODER.encode(dict(meta))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"meta must be JSON: {error}", remedy="send arrays as tensors") from None
    if size > limits.header_bytes // 2:
        raise FrameError(f"meta of {size} bytes is too large", remedy="send large content as a tensor")
    return text


def decode_meta(text: str) -> dict[str, Any]:
    """Return the values of a message from their JSON text."""
    if text == "{}":
        return {}
    meta = _load(text, _META)
    if not isinstance(meta, dict):
        raise FrameError("meta is not a JSON object")
    return meta


def encode(message: Message, sequence: int = 0, limits: Limits = Limits()) -> Frame:  # noqa: B008
    """Turn `message` into a frame; contiguous little-endian arrays are referred to, others copied."""
    check_message(message, limits)
    arrays = {name: _wire_order(tensor) for name, tensor in message.tensors.items()}
    # Wide items first: then every buffer is aligned for its dtype, and the reader need not copy either.
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize) if len(arrays) > 1 else list(arrays)
    offsets, at = {}, 0
    for name in order:
        offsets[name] = (at, at := at + arrays[name].nbytes)
    envelope = {"run": message.run, "sender": message.sender, "kind": message.kind, "step": str(message.step)}
    envelope |= {"sequence": str(sequence), "meta": encode_meta(message.meta, limits)}
    header: dict[str, Any] = {"__metadata__": envelope}
    for name, array in arrays.items():
        header[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": offsets[name]}
    text = _ENCODER.encode(header).encode()
    text += b" " * (-len(text) % _PREFIX)
    size = _PREFIX + len(text) + at
    if len(text) > limits.header_bytes or size > limits.frame_bytes:
        raise FrameError(f"a frame of {size} bytes is too large", where=message.kind, remedy="send it in parts")
    head = memoryview(len(text).to_bytes(_PREFIX, "little") + text)
    return Frame((head, *(_bytes_of(arrays[name]).data for name in order)), size)


def decode(frame: memoryview | bytes, limits: Limits = Limits()) -> tuple[Message, int]:  # noqa: B008
    """Turn a frame into its message and sequence number; the arrays are views of `frame`, and read-only.

    Raises:
        FrameError: whatever is wrong with the bytes.
    """
    data = memoryview(frame).toreadonly()
    if len(data) > limits.frame_bytes:
        raise FrameError(f"a frame of {len(data)} bytes is larger than {limits.frame_bytes}")
    header, start = _header(data, limits)
    run, sender, kind, step, sequence, meta = _envelope(header.pop("__metadata__", None), limits)
    if len(header) > limits.tensors:
        raise FrameError(f"{len(header)} tensors are more than {limits.tensors}")
    entries = {name: _entry(name, found, limits) for name, found in header.items()}
    _check_spans([(begin, end) for _, _, begin, end in entries.values()], len(data) - start)
    tensors = {
        name: _view(name, data, dtype, shape, start + begin) for name, (dtype, shape, begin, _) in entries.items()
    }
    return Message(run, sender, kind, step, tensors, meta), sequence


def _header(data: memoryview, limits: Limits) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX:
        raise FrameError(f"truncated: {len(data)} bytes are no frame")
    length = int.from_bytes(data[:_PREFIX], "little")
    if length > limits.header_bytes:
        raise FrameError(f"a header of {length} bytes is larger than {limits.header_bytes}")
    start = _PREFIX + length
    if start > len(data):
        raise FrameError(f"truncated: the header needs {length} bytes, {len(data) - _PREFIX} are there")
    raw = bytes(data[_PREFIX:start])
    if not raw.startswith(b"{"):
        raise FrameError("the header does not start with '{'")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise FrameError("the header is not UTF-8") from None
    header = _load(text, _HEADER)
    if not isinstance(header, dict):
        raise FrameError("the header is not a JSON object")
    return header, start


def _load(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        value = decoder.decode(text)
        if "\\u" in text:  # an escape may hide half a surrogate pair, which is no text
            _ENCODER.encode(value).encode()
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


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_META = json.JSONDecoder(object_pairs_hook=_without_duplicates)
_HEADER = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=_whole,
    parse_float=_refuse_number,
    parse_constant=_refuse_number,
)


def _envelope(found: object, limits: Limits) -> tuple[str, str, str, int, int, dict[str, Any]]:
    if not isinstance(found, dict) or found.keys() != _ENVELOPE:
        raise FrameError(f"the envelope must have exactly {', '.join(sorted(_ENVELOPE))}")
    run, sender, kind, meta = found["run"], found["sender"], found["kind"], found["meta"]
    _check_name(run, "run", limits)
    _check_name(sender, "sender", limits)
    _check_name(kind, "kind", limits)
    if not isinstance(meta, str):
        raise FrameError("meta is not text")
    return run, sender, kind, _count(found["step"], "step"), _count(found["sequence"], "sequence"), decode_meta(meta)


def _count(found: object, what: str) -> int:
    if not isinstance(found, str) or not _WHOLE.fullmatch(found) or int(found) > LARGEST_STEP:
        raise FrameError(f"{what} is not a whole number")
    return int(found)


def _entry(name: str, entry: object, limits: Limits) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    _check_name(name, "tensor name", limits)
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
    return dtype, tuple(shape), begin, end


def _view(name: str, data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], at: int) -> Array:
    count = prod(shape)
    if not count:
        return np.empty(shape, dtype)
    if dtype == np.bool_ and np.frombuffer(data, np.uint8, count, at).max() > 1:
        raise FrameError(f"tensor '{name}' is BOOL and has bytes that are neither 0 nor 1")
    array = np.frombuffer(data, dtype, count, at).reshape(shape)
    return array if array.flags.aligned else array.copy()


def _check_spans(spans: list[tuple[int, int]], size: int) -> None:
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise FrameError("tensors overlap" if begin < at else "there is a gap between tensors")
        at = end
    if at > size:
        raise FrameError(f"truncated: the tensors need {at} bytes, {size} are there")
    if at < size:
        raise FrameError(f"{size - at} bytes behind the last tensor")


def _are_whole(values: object) -> bool:
    return isinstance(values, list) and all([type(value) is int for value in values])  # noqa: C419  (quicker)


def _fits(shape: tuple[int, ...], itemsize: int, limits: Limits) -> bool:
    # Zeros are left out: a shape such as (2**40, 0) has no bytes, and still nobody can work with it.
    return len(shape) <= limits.rank and prod([n for n in shape if n]) * itemsize <= limits.frame_bytes


def _check_name(name: object, what: str, limits: Limits) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= limits.name_length or not name.isprintable():
        raise FrameError(f"{what} must be printable text of 1 to {limits.name_length} characters")


def _wire_order(tensor: Array) -> Array:
    if tensor.flags.c_contiguous and tensor.dtype.byteorder != ">" and isinstance(tensor, np.ndarray):
        return tensor
    return np.asarray(tensor, dtype=tensor.dtype.newbyteorder("<"), order="C")


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
