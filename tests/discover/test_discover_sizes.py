"""If these fail, a few bytes from a peer can take all of a party's memory, or make it learn on a table it has not."""

import numpy as np
import pytest

from colonnade.discover.sizes import layout_of_greeting, layouts_of_plan
from colonnade.errors import FrameError
from colonnade.wire.message import Message

PARTIES = ("clinic", "lab")
HUGE = 10**12


def plan(widths):
    return Message("run", "hub", "plan", 0, {}, {"start": 0, "widths": widths})


def read(widths):
    return layouts_of_plan(plan(widths), PARTIES, ("clinic", [1, 3]), 100)


def test_sizes_that_fit_are_taken():
    found = read({"clinic": [1, 3], "lab": [2]})
    assert {party: layout.widths for party, layout in found.items()} == {"clinic": (1, 3), "lab": (2,)}


@pytest.mark.parametrize(
    ("widths", "what"),
    [
        ({"clinic": [1, 3, HUGE], "lab": [2]}, "gives 'clinic' other columns than it has"),
        ({"clinic": [1], "lab": [2]}, "gives 'clinic' other columns than it has"),
        ({"clinic": [1, 3], "lab": [HUGE]}, "more columns than can be learned from 100 records"),
        ({"clinic": [1, 3], "lab": [1] * 96}, "more columns than can be learned from 100 records"),
        ({"clinic": [1, 3], "lab": [-1]}, "no numbers of columns"),
        ({"clinic": [1, 3], "lab": [True]}, "no numbers of columns"),
        ({"clinic": [1, 3], "lab": "12"}, "no numbers of columns"),
        ({"clinic": [1, 3], "lab": []}, "no numbers of columns"),
        ({"clinic": [1, 3]}, "sizes of all parties"),
        (None, "sizes of all parties"),
    ],
)
def test_sizes_that_cannot_be_are_refused(widths, what):
    with pytest.raises(FrameError, match=what) as caught:
        read(widths)
    assert caught.value.where == "hub"


@pytest.mark.parametrize(
    ("names", "widths", "variances"), [(["a"], [1, 1], 2), (["a", "b"], [1, 1], 3), ("ab", [1, 1], 2), (["a"], [0], 1)]
)
def test_a_greeting_whose_parts_do_not_fit_is_refused(names, widths, variances):
    meta = {"names": names, "widths": widths}
    with pytest.raises(FrameError, match="'hello'"):
        layout_of_greeting(Message("run", "lab", "hello", 0, {"variances": np.zeros(variances)}, meta))
