"""What a person may write to choose a defense or an attack."""

import math

import pytest

from colonnade.errors import ConfigError
from colonnade.registry import Registry
from colonnade.strength import make, number, one_of, yes_or_no


class Stone:
    def __init__(self, weight, polish=1):
        self.weight, self.polish = weight, polish


STONES = Registry("stone")
STONES.register("stone")(Stone)
STONES.register("pebble")(lambda: None)


def test_a_name_is_made_with_its_parameters():
    made = make(STONES, Stone, "stone", {"weight": 3})
    assert (made.weight, made.polish) == (3, 1)


def test_a_ready_made_object_is_returned_as_it_is():
    stone = Stone(1)
    assert make(STONES, Stone, stone, {}) is stone
    with pytest.raises(ConfigError, match="takes no further parameters"):
        make(STONES, Stone, stone, {"polish": 2})


def test_an_unknown_parameter_names_the_known_ones():
    """A typing error would leave the protection at its default strength."""
    expected = r"stone: unknown parameter 'polsh' \(it takes weight, polish; did you mean 'polish'\?\)"
    with pytest.raises(ConfigError, match=expected):
        make(STONES, Stone, "stone", {"weight": 1, "polsh": 2})


def test_a_missing_parameter_is_named():
    with pytest.raises(ConfigError, match="parameter 'weight' is missing"):
        make(STONES, Stone, "stone", {})


def test_a_registered_thing_of_another_kind_is_refused():
    """A broken plug-in would fail in the middle of a run."""
    with pytest.raises(ConfigError, match="pebble: it is registered but is no Stone"):
        make(STONES, Stone, "pebble", {})


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "1", True, None])
def test_numbers_out_of_range_are_refused(value):
    with pytest.raises(ConfigError, match=r"sigma: .* is not allowed \(give a number of at least 0\)"):
        number("sigma", value, at_least=0)


def test_a_whole_number_must_be_whole():
    assert number("epochs", 5, at_least=1, whole=True) == 5
    with pytest.raises(ConfigError, match="give a whole number of at least 1"):
        number("epochs", 2.5, at_least=1, whole=True)


@pytest.mark.parametrize("value", ["no", "false", 0, 1, None])
def test_a_text_is_no_answer_to_yes_or_no(value):
    """The word "no" in a file would otherwise count as yes."""
    assert yes_or_no("memoise", True) is True
    with pytest.raises(ConfigError, match=r"memoise: .* is not allowed \(give true or false\)"):
        yes_or_no("memoise", value)


def test_a_choice_that_is_not_known_tells_the_nearest():
    assert one_of("decoder.preset", "weak", {"weak": 1, "strong": 2}) == "weak"
    with pytest.raises(ConfigError, match=r"decoder\.preset: unknown preset 'storng' \(did you mean 'strong'\?\)"):
        one_of("decoder.preset", "storng", iter(["weak", "strong"]))


@pytest.mark.parametrize("value", [["weak"], {"weak": 1}, 3, None, True, math.nan])
def test_what_is_no_text_is_no_choice(value):
    """A list in a file or on the command line ended in a traceback about hashing."""
    with pytest.raises(ConfigError, match="unknown preset"):
        one_of("decoder.preset", value, {"weak": 1, "strong": 2})
