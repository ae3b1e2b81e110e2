"""A pickle from the internet must never run anything on the user's machine."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
from datasets_published import python2_pickle

from colonnade.data.datasets.plain_pickle import load_plain_pickle
from colonnade.errors import DataError


class _Runs:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def _loaded(tmp_path, content, encoding="latin1"):
    path = tmp_path / "file.pkl"
    path.write_bytes(content)
    return load_plain_pickle(path, encoding)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["u1", "<f4", ">f8", "i8", "?", "c8", "S3", "U3"])
def test_arrays_of_plain_types_come_back_whole(tmp_path, protocol, kind):
    array = np.arange(6).reshape(2, 3).astype(kind)
    back = _loaded(tmp_path, pickle.dumps({"x": array, "columns": np.asfortranarray(array)}, protocol))
    assert np.asarray(back["x"]).dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back["x"], array)
    np.testing.assert_array_equal(back["columns"], array)


def test_pickles_of_python_2_come_back_whole(tmp_path):
    """CIFAR and IEMOCAP were pickled by Python 2, whose text is neither bytes nor str."""
    array = np.arange(300, dtype=np.uint8).reshape(3, 100)
    content = python2_pickle({"data": array, "name": "é", "one": np.float64(1.5)})
    back = _loaded(tmp_path, content, "bytes")
    np.testing.assert_array_equal(back[b"data"], array)
    assert back[b"name"] == "é".encode("latin1")
    back = _loaded(tmp_path, content, "latin1")
    np.testing.assert_array_equal(back["data"], array)
    assert (back["name"], back["one"]) == ("é", 1.5)


@pytest.mark.parametrize("protocol", [2, 5])
def test_plain_containers_come_back_whole(tmp_path, protocol):
    value = {
        "set": {1, 2},
        "ordered": OrderedDict(a=1),
        "by default": defaultdict(list, a=[1]),
        "bytes": b"\xff\x00",
        "mixed": (None, True, 1.5, "é", [frozenset({3})]),
        "objects": np.array(["one", None, 3], dtype=object),
        "scalar": np.int32(7),
    }
    back = _loaded(tmp_path, pickle.dumps(value, protocol))
    assert list(back.pop("objects")) == list(value.pop("objects"))
    assert back == value


def test_a_pickle_that_runs_a_command_is_refused_before_it_runs(tmp_path):
    trace = tmp_path / "it_ran"
    content = pickle.dumps({b"data": _Runs(os.system, f"touch {trace}")}, 2)
    with pytest.raises(DataError, match=r"asks for '(posix|nt)\.system'.* refused") as caught:
        _loaded(tmp_path, content)
    assert not trace.exists()
    assert caught.value.where == str(tmp_path / "file.pkl")


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\n__import__\n(S'os'\ntR.",
        b"cbuiltins\ngetattr\n.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\n__loader__\n.",
        b"cnumpy._core._internal\n_reconstruct\n.",
        b"cfunctools\npartial\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04\x8c\x08builtins\x8c\x0cset.__init__\x93.",
    ],
)
def test_every_name_that_plain_data_does_not_need_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="refused"):
        _loaded(tmp_path, content)


@pytest.mark.parametrize("kind", [[("a", "i4")], "M8[s]", "V8"])
def test_arrays_of_other_than_plain_types_are_refused(tmp_path, kind):
    with pytest.raises(DataError, match="no plain type"):
        _loaded(tmp_path, pickle.dumps(np.zeros(2, dtype=kind), 2))


def test_an_array_whose_bytes_do_not_fill_its_shape_is_refused(tmp_path):
    content = pickle.dumps(np.zeros((3, 5), np.uint8), 2).replace(b"K\x03K\x05\x86", b"K\x64K\x05\x86")
    with pytest.raises(DataError, match="no readable pickle"):
        _loaded(tmp_path, content)


def test_objects_cannot_be_smuggled_in_as_raw_bytes(tmp_path):
    """Raw bytes taken for object pointers would be read as addresses."""
    state = (1, (1,), np.dtype("O"), False, b"\x41" * 8)
    content = pickle.dumps(_Runs(np.ndarray((0,)).__reduce__()[0], np.ndarray, (0,), b"b"), 2)[:-1]
    build = pickle.dumps(state, 2)[2:-1] + b"b."
    with pytest.raises(DataError, match="no readable pickle"):
        _loaded(tmp_path, content + build)


def test_a_truncated_pickle_gives_a_clear_error_wherever_it_ends(tmp_path):
    content = python2_pickle({b"data": np.zeros((2, 4), np.uint8), b"labels": [1, 2]})
    for end in range(len(content)):
        with pytest.raises(DataError):
            _loaded(tmp_path, content[:end], "bytes")
