"""What the others are told when a party stops: nothing that is not made to be told."""

from __future__ import annotations

from collections.abc import Collection

from colonnade.errors import ColonnadeError, ConfigError, DataError, RunError, printable

_SEE_LOG = "its own log says why"
_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (ConfigError, f"a setting or a file cannot be used; {_SEE_LOG}"),
    (DataError, f"records, columns or labels cannot be used; {_SEE_LOG}"),
    (RunError, f"its run cannot go on; {_SEE_LOG}"),
    (KeyboardInterrupt, "it was interrupted"),
)


def reason_to_tell(error: BaseException, parties: Collection[str]) -> str:
    """Return in one sentence what `error` may tell the other parties.

    The words of most errors are for the party itself: they name its columns, its folders, even values of its label, and
    nobody knows what stands in an error that a library raises. Only those that are made of what everybody knows are
    told; of all others the kind, and which of the `parties` is to blame if it is one of them.

    >>> reason_to_tell(DataError("labels that no training record had: 'ill'", where="label"), ["lab"])
    'records, columns or labels cannot be used; its own log says why'
    """
    if not isinstance(error, ColonnadeError):
        return _kind(error)
    if error.told:
        return _without_folders(error)
    return f"{error.where}: {_kind(error)}" if error.where in parties else _kind(error)


def _kind(error: BaseException) -> str:
    for kind, sentence in _KINDS:
        if isinstance(error, kind):
            return sentence
    return f"something unexpected ({type(error).__name__}); {_SEE_LOG}"


def _without_folders(error: ColonnadeError) -> str:
    """Where a party keeps a file is nobody's business; what it is called may help."""
    where, found = error.where or "", str(error)
    name = where.rpartition("/")[2]
    return found if name == where else printable(name) + found.removeprefix(printable(where))
