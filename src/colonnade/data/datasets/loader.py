"""The registry of data sets, and what all loaders share: the folder, the options, where the data comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade.data.datasets.dataset import Dataset
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.registry import Registry


@dataclass(frozen=True)
class Source:
    """Where a data set usually comes from, in words, and under which licence."""

    home: str
    licence: str

    def __str__(self) -> str:
        return f"{self.home}; {self.licence}"


class Loader:
    """A reader of one data set, with its name and source; prints as the reader's first line."""

    def __init__(self, name: str, source: Source, read: Callable[..., Dataset]) -> None:
        self.name, self.source, self._read = name, source, read
        self.__doc__ = read.__doc__
        parameters = list(inspect.signature(read).parameters)
        self.needs_folder = "folder" in parameters
        self.options = tuple(name for name in parameters if name != "folder")

    def __call__(self, folder: Path | str | None = None, **options: Any) -> Dataset:
        """Read the data set from `folder`; errors name the file that is missing and where it usually comes from."""
        self._check_options(options)
        try:
            dataset = self._read(*self._folder(folder), **options)
        except DataError as error:
            error.remedy = error.remedy or f"{self.name} usually comes from: {self.source.home}"
            raise
        return replace(dataset, name=self.name, note=str(self.source))

    def _check_options(self, options: dict[str, Any]) -> None:
        for option in options:
            if option not in self.options:
                raise ConfigError(
                    f"data set '{self.name}' has no option '{option}'", remedy=nearest(option, self.options)
                )

    def _folder(self, folder: Path | str | None) -> tuple[Path, ...]:
        if not self.needs_folder:
            if folder is not None:
                raise ConfigError(
                    f"data set '{self.name}' comes with an installed package and takes no folder", where=str(folder)
                )
            return ()
        if folder is None:
            raise ConfigError(
                f"data set '{self.name}' needs the folder that holds its files",
                remedy=f"it usually comes from: {self.source.home}",
            )
        path = Path(folder).expanduser()
        if path.is_file():
            raise DataError("is a file", where=str(path), remedy=f"name the folder that holds it: {path.parent}")
        if not path.is_dir():
            raise DataError("there is no such folder", where=str(path))
        return (path,)


DATASETS: Registry[Loader] = Registry("data set")
"""All loaders by name; iterates over names, prints one line each."""


def dataset(name: str, source: Source) -> Callable[[Callable[..., Dataset]], Loader]:
    """Return a decorator that files a reading function in `DATASETS` under `name`."""

    def file_under_name(read: Callable[..., Dataset]) -> Loader:
        return DATASETS.register(name)(Loader(name, source, read))

    return file_under_name


def load_dataset(name: str, folder: Path | str | None = None, **options: Any) -> Dataset:
    """Load a published data set by name.

    Args:
        name: one of `DATASETS`.
        folder: where its files lie, in the format in which they are published; none for packaged sets.
        options: what the loader named offers (`DATASETS[name].options`).

    Returns:
        The whole set in memory.

    Example:
        >>> load_dataset("breast_cancer").table.shape
        (569, 30)
    """
    return DATASETS[name](folder, **options)
