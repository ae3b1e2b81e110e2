"""Messages as bytes: safetensors frames, read strictly and without a copy.

A frame is eight bytes with the length of the header, the header as JSON (see `header`), then the raw buffers. The
`safetensors` library copies every buffer twice, so frames are taken apart here; nothing is accepted that it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from colonnade.errors import FrameError
from colonnade.wire.header import (
    ENCODER,
    LARGEST,
    LIMITS,
    META_DECODER,
    Header,
    Limits,
    Tensor,
    load,
    read_header,
    write_header,
)
from colonnade.wire.message import Array, Message

_PREFIX = 8


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


class Written(Mapping[str, Any]):
    """The meta of a message as it came: as values it takes up to 25 times as much, and many messages may wait."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()

    def read(self) -> dict[str, Any]:
        """Return the values."""
        return decode_meta(self._bytes.decode())

    def __getitem__(self, name: str) -> Any:
        return self.read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())

    def __len__(self) -> int:
        return len(self.read())

    def __repr__(self) -> str:
        return repr(self._bytes)


def encode(message: Message, sequence: int = 0, limits: Limits = LIMITS) -> Frame:
    """Turn `message` into a frame; contiguous little-endian arrays are referred to, others copied.

    Raises:
        FrameError: the message cannot be sent; see `Limits`.
    """
    text, header = _head(message, sequence, limits)
    head = memoryview(len(text).to_bytes(_PREFIX, "little") + text)
    placed = header.tensors if len(header.tensors) < 2 else sorted(header.tensors, key=lambda tensor: tensor[3:])
    buffers = [_wire_order(message.tensors[tensor.name]).reshape(-1).view(np.uint8).data for tensor in placed]
    return Frame((head, *buffers), len(head) + header.size)


def check(message: Message, limits: Limits = LIMITS) -> None:
    """Raise a `FrameError` if `message` cannot be put into a frame."""
    _head(message, 0, limits)


def _head(message: Message, sequence: int, limits: Limits) -> tuple[bytes, Header]:
    if type(message.step) is not int or not 0 <= message.step <= LARGEST:
        raise FrameError(f"step must be a whole number from 0 to {LARGEST}, not {message.step!r}", where=message.kind)
    for name, tensor in message.tensors.items():
        if not isinstance(tensor, np.ndarray | np.generic):
            what = f"tensor '{name}' is a {type(tensor).__name__}, not a numpy array"
            raise FrameError(what, where=message.kind)
    tensors = tuple([Tensor(name, tensor.dtype, tensor.shape) for name, tensor in message.tensors.items()])
    envelope = (message.run, message.sender, message.kind, encode_meta(message.meta, limits))
    text, header = write_header(envelope, tensors, message.step, sequence, limits)
    size = _PREFIX + len(text) + header.size
    if len(text) > limits.header_bytes or size > limits.frame_bytes:
        raise FrameError(f"a frame of {size} bytes is too large", where=message.kind, remedy="send it in parts")
    return text, header


def decode(frame: memoryview | bytes, limits: Limits = LIMITS) -> tuple[Message, int]:
    """Turn a frame into its message and sequence number; the arrays are views of `frame`, and read-only.

    The meta has been checked, and is still `Written`.

    Raises:
        FrameError: whatever is wrong with the bytes.
    """
    data = memoryview(frame).toreadonly()
    if len(data) < _PREFIX:
        raise FrameError(f"truncated: {len(data)} bytes are no frame")
    if len(data) > limits.frame_bytes:
        raise FrameError(f"oversize: a frame of {len(data)} bytes is larger than {limits.frame_bytes}")
    length = int.from_bytes(data[:_PREFIX], "little")
    start = _PREFIX + length
    if length > limits.header_bytes:
        raise FrameError(f"a header of {length} bytes is larger than {limits.header_bytes}")
    if start > len(data):
        raise FrameError(f"truncated: the header needs {length} bytes, {len(data) - _PREFIX} are there")
    header, step, sequence = read_header(bytes(data[_PREFIX:start]), limits)
    if start + header.size > len(data):
        raise FrameError(f"truncated: the tensors need {header.size} bytes, {len(data) - start} are there")
    if start + header.size < len(data):
        raise FrameError(f"{len(data) - start - header.size} bytes behind the last tensor")
    tensors = {tensor.name: _view(tensor, data, start) for tensor in header.tensors}
    _check_meta(len(header.meta), limits)  # letters are no more than bytes: what may be sent may be read
    meta = Written(header.meta) if decode_meta(header.meta) else {}
    return Message(header.run, header.sender, header.kind, step, tensors, meta), sequence


def encode_meta(meta: Mapping[str, Any], limits: Limits = LIMITS) -> str:
    """Return `meta` as JSON text; non-finite floats are kept, anything that is not JSON is a `FrameError`."""
    if not meta:
        return "{}"
    try:
        text = ENCODER.encode(dict(meta))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"meta must be JSON: {error}", remedy="send arrays as tensors") from None
    _check_meta(size, limits)
    return text


def decode_meta(text: str) -> dict[str, Any]:
    """Return the values of a message from their JSON text."""
    meta = load(text, META_DECODER) if text != "{}" else {}
    if not isinstance(meta, dict):
        raise FrameError("meta is not a JSON object")
    return meta


def _check_meta(size: int, limits: Limits) -> None:
    if size > limits.header_bytes // 2:
        raise FrameError(f"meta of {size} bytes is too large", remedy="send large content as a tensor")


def _wire_order(tensor: Array) -> Array:
    if isinstance(tensor, np.generic) or not tensor.flags.c_contiguous or tensor.dtype.byteorder == ">":
        return np.asarray(tensor, dtype=tensor.dtype.newbyteorder("<"), order="C")
    return tensor


def _view(tensor: Tensor, data: memoryview, start: int) -> Array:
    name, dtype, shape, begin, _ = tensor
    count, at = prod(shape), start + begin
    if not count:
        return np.empty(shape, dtype)
    if dtype.kind == "b" and np.frombuffer(data, np.uint8, count, at).max() > 1:
        raise FrameError(f"tensor '{name}' is BOOL and has bytes that are neither 0 nor 1")
    array = np.frombuffer(data, dtype, count, at).reshape(shape)
    return array if array.flags.aligned else array.copy()
