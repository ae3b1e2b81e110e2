"""Named things that users and other packages can add to: defenses, attacks, data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from colonnade.errors import ConfigError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names mapped to factories; iterates over names, prints one line each.

    A name can be registered once. Other packages register through the entry-point group `group`;
    those are loaded when the registry is first read, so importing Colonnade stays quick.
    """

    def __init__(self, what: str, group: str | None = None) -> None:
        self._what, self._group = what, group
        self._entries: dict[str, T] = {}
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
        self._loaded = True
        for point in entry_points(group=self._group):
            self.register(point.name)(point.load())


def _first_line(entry: object) -> str:
    return (getattr(entry, "__doc__", None) or "").strip().split("\n")[0]
