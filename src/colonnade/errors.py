"""Every error a user may meet: what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ColonnadeError(Exception):
    """Base of all errors that Colonnade raises on purpose.

    Args:
        what: what is wrong, in one sentence.
        where: the file, field, column or party concerned.
        remedy: what the reader can do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.remedy})" if self.remedy else text


class ConfigError(ColonnadeError):
    """A file or an argument that a person wrote cannot be used."""

    exit_code = 3


class DataError(ColonnadeError):
    """Records, columns or labels are not what the task needs."""

    exit_code = 4


class AlignmentError(ColonnadeError):
    """The parties' records could not be aligned."""

    exit_code = 5


class WireError(ColonnadeError):
    """Something went wrong between parties."""

    exit_code = 6


class FrameError(WireError):
    """Bytes that are no valid frame."""


class RefusedError(WireError):
    """A peer's message was refused: wrong kind, wrong step, wrong run, too large."""


class DeadlineError(WireError):
    """A peer did not answer in time."""


class PeerLostError(WireError):
    """A peer never came, died or left; `peer` names it."""

    def __init__(self, peer: str, what: str, *, remedy: str | None = None) -> None:
        self.peer = peer
        super().__init__(what, where=peer, remedy=remedy)


class AuthenticationError(WireError):
    """A certificate was not accepted. Final: never retried."""

    exit_code = 7


class RunError(ColonnadeError):
    """A run folder, checkpoint or saved model is missing, damaged or does not fit."""

    exit_code = 8


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the known name closest to `name`, or the list of known names."""
    names, name = sorted(known), str(name)  # people ask for column 0 too
    longer = [one for one in names if name and one.startswith(name)]  # who wrote a part of a name meant that name
    close = longer if len(longer) == 1 else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names) or 'none'}"
