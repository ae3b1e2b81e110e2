"""Names of defenses, attacks and data sets: one owner each, found by name, open to other packages."""

import importlib
import warnings
from importlib.metadata import EntryPoint

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
    dist, value = None, "quarry:Thing"

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
    """Whoever installs another package would have a weaker defense under the old name, and not know."""
    monkeypatch.setattr(colonnade.registry, "entry_points", lambda group: [FakeEntryPoint("granite", Marble)])
    stones = Registry("stone", "quarry.stones")
    stones.register("granite")(Granite)
    with pytest.warns(UserWarning, match="registered twice"):
        assert list(stones) == ["granite"]
    assert stones["granite"] is Granite


@pytest.fixture
def quarry(tmp_path, monkeypatch):
    """A package with a stone that can't be loaded before one that can, as pip would have installed it."""
    (tmp_path / "quarry.py").write_text("class Marble:\n    'A fine stone.'\n")
    about = tmp_path / "the_quarry-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: the-quarry\nVersion: 1.0\n")
    points = "chalk = quarry_of_nobody:Chalk\nflint = quarry:Flint\nmarble = quarry:Marble\n"
    (about / "entry_points.txt").write_text(f"[quarry.stones]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    stones = Registry("stone", "quarry.stones")
    stones.register("granite")(Granite)
    return stones


def test_a_package_that_can_not_be_loaded_leaves_the_others_alone(quarry):
    """One broken package would take every list with it, and all packages after it in silence."""
    with pytest.warns(UserWarning) as told:
        assert list(quarry) == ["granite", "marble"]
    assert [str(one.message).partition(":")[0] for one in told] == [
        "stone 'chalk' of package 'the-quarry' (quarry_of_nobody",
        "stone 'flint' of package 'the-quarry' (quarry",
    ]
    assert quarry["marble"].__doc__ == "A fine stone." and quarry["granite"] is Granite
    assert "chalk" not in quarry
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "marble" in repr(quarry), "it is told once"


@pytest.mark.filterwarnings("ignore:stone")
@pytest.mark.parametrize(
    ("name", "cause", "kind"),
    [("chalk", "No module named 'quarry_of_nobody'", ImportError), ("flint", "no attribute 'Flint'", AttributeError)],
)
def test_asking_for_what_can_not_be_loaded_tells_package_and_cause(quarry, name, cause, kind):
    """It would be called unknown, and people would look for a slip in their own file."""
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"stone '{name}' of package 'the-quarry' .*{cause}") as error:
            quarry[name]
        assert isinstance(error.value.__cause__, kind) and error.value.remedy


def test_where_warnings_are_errors_nothing_is_missing_afterwards(quarry):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="chalk"):
            list(quarry)
    assert list(quarry) == ["granite", "marble"]


def test_a_module_that_reads_the_registry_while_it_is_loaded_ends(monkeypatch):
    stones = Registry("stone", "quarry.stones")

    class Reading(FakeEntryPoint):
        def load(self):
            assert list(stones) == []
            return self._thing

    monkeypatch.setattr(colonnade.registry, "entry_points", lambda group: [Reading("marble", Marble)])
    assert list(stones) == ["marble"]


def test_an_entry_point_without_a_package_is_told_nevertheless(monkeypatch):
    point = EntryPoint("chalk", "quarry_of_nobody:Chalk", "quarry.stones")
    monkeypatch.setattr(colonnade.registry, "entry_points", lambda group: [point])
    with pytest.warns(UserWarning, match="of an unknown package"):
        assert len(Registry("stone", "quarry.stones")) == 0
