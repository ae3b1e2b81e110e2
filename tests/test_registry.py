"""Names of defenses, attacks and data sets: one owner each, found by name, open to other packages."""

import pytest

import colonnade.registry
from colonnade.errors import ConfigError, nearest
from colonnade.registry import Registry


class Marble:
    """A fine stone.

    With a second paragraph.
    """


class Granite:
    """A hard stone."""


class FakeEntryPoint:
    def __init__(self, name, thing):
        self.name, self._thing = name, thing

    def load(self):
        return self._thing


def registry_of_stones():
    stones = Registry("stone")
    stones.register("marble")(Marble)
    stones.register("granite")(Granite)
    return stones


def test_names_are_found_counted_and_listed_in_order():
    stones = registry_of_stones()
    assert stones["marble"] is Marble
    assert list(stones) == ["granite", "marble"] and len(stones) == 2
    assert "marble" in stones and "chalk" not in stones


def test_printing_shows_one_line_each():
    """`co.defenses()` would not tell what there is."""
    assert repr(registry_of_stones()) == "granite  A hard stone.\nmarble   A fine stone."


def test_a_taken_name_is_refused():
    """Another package could silently replace a defense by a weaker one."""
    stones = registry_of_stones()
    with pytest.raises(ConfigError, match="stone 'marble' is registered twice"):
        stones.register("marble")(Granite)
    assert stones["marble"] is Marble


def test_the_same_thing_may_be_registered_again():
    """A module that is loaded twice, as an entry point and by import, would be refused."""
    stones = registry_of_stones()
    assert stones.register("marble")(Marble) is Marble


def test_an_unknown_name_tells_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown stone 'marbel'.*did you mean 'marble'"):
        registry_of_stones()["marbel"]


def test_a_part_of_a_name_means_that_name():
    """`neg_kl` is nearer to `neg_ce` by its letters, and was meant for `neg_kl_uniform`."""
    assert nearest("neg_kl", ["neg_ce", "capped_ce", "neg_kl_uniform"]) == "did you mean 'neg_kl_uniform'?"
    assert nearest("capped", ["capped_ce", "capped_mse"]).startswith("did you mean 'capped_")


def test_entry_points_are_loaded_once_when_first_read(monkeypatch):
    """Other packages' defenses would be missing, or importing Colonnade would import them all."""
    asked = []

    def entry_points(group):
        asked.append(group)
        return [FakeEntryPoint("marble", Marble)]

    monkeypatch.setattr(colonnade.registry, "entry_points", entry_points)
    stones = Registry("stone", "quarry.stones")
    stones.register("granite")(Granite)
    assert asked == []
    assert list(stones) == ["granite", "marble"]
    assert stones["marble"] is Marble
    assert asked == ["quarry.stones"]


def test_an_entry_point_cannot_take_a_built_in_name(monkeypatch):
    monkeypatch.setattr(colonnade.registry, "entry_points", lambda group: [FakeEntryPoint("granite", Marble)])
    stones = Registry("stone", "quarry.stones")
    stones.register("granite")(Granite)
    with pytest.raises(ConfigError, match="registered twice"):
        list(stones)
