"""Published pickles of plain data (CIFAR batches, IEMOCAP features), read without running what they ask for.

Colonnade neither writes pickles nor accepts them on the wire. Two data sets, however, are published as pickles, and
a pickle may name any function of any module and have it called. This reader knows only the few names that numpy
arrays, sets and dictionaries need, maps each to a stand-in of its own that checks its arguments, and refuses the
file at the first other name. numpy's own reconstruction functions are never handed what a file says.
"""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

_PLAIN_TYPE = re.compile(r"[biufcSUO]\d*")
_ORDERS: dict[str, Literal["<", ">", "=", "|"]] = {"<": "<", ">": ">", "=": "=", "|": "|"}


class _Dtype:
    """Stands for `numpy.dtype`: takes plain types only, and of their state nothing but the byte order."""

    def __init__(self, code: str | bytes, align: bool = False, copy: bool = True) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else code
        if not _PLAIN_TYPE.fullmatch(text):
            raise DataError(f"the file holds an array of type '{text}', which is no plain type")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in _ORDERS or any(part is not None for part in state[2:5]):
            raise DataError("the file holds an array of a compound type, which is no plain type")
        self.dtype = self.dtype.newbyteorder(_ORDERS[order])


class _Array(np.ndarray[Any, np.dtype[Any]]):
    """Stands for `numpy.ndarray`; numpy checks that the bytes fill the shape."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, by_columns, content = state
        super().__setstate__((version, shape, kind.dtype, by_columns, content))


def _empty_array(kind: type, shape: tuple[int, ...], code: bytes) -> _Array:
    # The published shape is (0,) always; the true one follows with the content.
    return np.ndarray.__new__(_Array, (0,))


def _scalar(kind: _Dtype, content: str | bytes) -> Any:
    return np.frombuffer(_latin1(content), dtype=kind.dtype, count=1)[0]


def _array_from_buffer(content: bytes, kind: _Dtype, shape: tuple[int, ...], order: Any) -> npt.NDArray[Any]:
    return np.frombuffer(content, dtype=kind.dtype).reshape(shape, order=order)


def _latin1(text: str | bytes, encoding: str = "latin1") -> bytes:
    # Python 3 writes bytes into old protocols as text that is to be encoded; no other encoding occurs.
    return text.encode("latin1") if isinstance(text, str) else text


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    names: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _latin1,
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "defaultdict"): defaultdict,
    }
    for core in ("numpy.core", "numpy._core"):
        names[f"{core}.multiarray", "_reconstruct"] = _empty_array
        names[f"{core}.multiarray", "scalar"] = _scalar
        names[f"{core}.numeric", "_frombuffer"] = _array_from_buffer
    for module in ("builtins", "__builtin__"):
        names |= {(module, kind.__name__): kind for kind in (set, frozenset, list, dict)}
    return names


class _PlainUnpickler(pickle.Unpickler):
    _names = _allowed()

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name that plain data needs; refuse every other."""
        if (module, name) not in self._names:
            raise DataError(f"the file asks for '{module}.{name}', which plain data never needs; it was refused")
        return self._names[module, name]


def load_plain_pickle(path: Path, encoding: str) -> Any:
    """Load a pickle that holds arrays, numbers, text, lists, tuples, sets and dictionaries, and nothing else.

    Args:
        path: the file.
        encoding: how text that Python 2 wrote is to be read: 'bytes' or 'latin1'.
    """
    try:
        with path.open("rb") as stream:
            return _PlainUnpickler(stream, encoding=encoding).load()
    except DataError as error:
        error.where = error.where or str(path)
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise DataError(f"the file is no readable pickle: {error}", where=str(path)) from error
