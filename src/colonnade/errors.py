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
        told: whether the other parties may read these words when the error stops a party; None takes the usual of the
            class. Only words that are made of what all know anyway are told: no value, no column, no folder.
    """

    exit_code = 1
    told = False

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, told: bool | None = None
    ) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        if told is not None:
            self.told = told
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        # Only a party's own words may be several lines: what is about others may hold what they sent.
        return printable(f"{text} ({self.remedy})" if self.remedy else text, keep="" if self.told else "\n")


class ConfigError(ColonnadeError):
    """A file or an argument that a person wrote cannot be used."""

    exit_code = 3


class DataError(ColonnadeError):
    """Records, columns or labels are not what the task needs."""

    exit_code = 4


class AlignmentError(ColonnadeError):
    """The parties' records could not be aligned."""

    exit_code = 5
    told = True


class WireError(ColonnadeError):
    """Something went wrong between parties."""

    exit_code = 6
    told = True


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


def printable(text: str, keep: str = "") -> str:
    """Spell out what cannot be printed, but for `keep`: a name from a file or a peer must not act on a terminal."""
    shown = (one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)
    return "".join(shown)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the known name closest to `name`, or the list of known names."""
    names, name = sorted(known), str(name)  # people ask for column 0 too
    longer = [one for one in names if name and one.startswith(name)]  # who wrote a part of a name meant that name
    close = longer if len(longer) == 1 else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names) or 'none'}"
