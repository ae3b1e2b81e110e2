"""Named things that users and other packages can add to: defenses, attacks, data sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from colonnade.errors import ConfigError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names mapped to factories; iterates over names, prints one line each.

    A name can be registered once. Other packages register through the entry-point group `group`;
    those are loaded when the registry is first read, so importing Colonnade stays quick. One that can't be loaded is
    warned of and leaves the others alone; asking for it says why.
    """

    def __init__(self, what: str, group: str | None = None) -> None:
        self._what, self._group = what, group
        self._entries: dict[str, T] = {}
        self._broken: dict[str, ConfigError] = {}
        self._loaded = group is None

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its argument under `name`; a taken name is an error."""

        def file_under_name(entry: T) -> T:
            if self._entries.get(name, entry) is not entry:
                raise ConfigError(f"{self._what} '{name}' is registered twice", remedy="choose another name")
            self._entries[name] = entry
            return entry

        return file_under_name

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._entries and name in self._broken:
            told = self._broken[name]
            raise ConfigError(told.what, remedy=told.remedy) from told.__cause__
        if name not in self._entries:
            raise ConfigError(f"unknown {self._what} '{name}'", remedy=nearest(name, self._entries))
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def __repr__(self) -> str:
        self._load()
        width = max((len(name) for name in self._entries), default=0)
        return "\n".join(f"{name:<{width}}  {_first_line(self._entries[name])}" for name in self)

    def _load(self) -> None:
        if self._loaded or self._group is None:
            return
        self._loaded = True  # now: what is loaded may read the registry itself
        for point in entry_points(group=self._group):
            try:
                self.register(point.name)(point.load())
            except Exception as error:  # whatever somebody's module raises when it is imported
                self._broken[point.name] = self._unusable(point, error)
        # Told at the end: where a warning is an error, nothing that can be loaded may be missing afterwards.
        for told in self._broken.values():
            warnings.warn(str(told), stacklevel=3)

    def _unusable(self, point: EntryPoint, error: Exception) -> ConfigError:
        package = "an unknown package" if point.dist is None else f"package '{point.dist.name}'"
        on_one_line = " ".join(str(error).split())
        why = error.what if isinstance(error, ConfigError) else f"{type(error).__name__}: {on_one_line}"
        what = f"{self._what} '{point.name}' of {package} ({point.value}) can't be loaded: {why}"
        told = ConfigError(what, remedy="mend the package, or remove it")
        told.__cause__ = error
        return told


def _first_line(entry: object) -> str:
    return (getattr(entry, "__doc__", None) or "").strip().split("\n")[0]
