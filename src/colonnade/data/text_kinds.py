"""Text that is something else: dates, and numbers with a few words among them, as a CSV file hands them over."""

from __future__ import annotations

import pandas as pd

from colonnade.data.kinds import column_kind, holds_dates

_MOSTLY = 0.5
_LOOKED_AT = 10_000
"""So many values of a column tell what it is."""

_DAY, _MONTH, _YEAR = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])", "[12][0-9]{3}"
_NAMED_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_TIME = r"[0-2]?[0-9]:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?(?: ?[ap]m)?(?: ?(?:z|utc|[+-][0-9]{2}:?[0-9]{2}))?"
_DATES = (
    rf"{_YEAR}(?P<iso>[-/.]){_MONTH}(?P=iso){_DAY}",
    rf"{_DAY}(?P<first>[-/.]){_DAY}(?P=first){_YEAR}",  # day or month first
    rf"[0-9]{{2}}(?P<short>[/.]){_DAY}(?P=short)[0-9]{{2}}",
    rf"{_DAY}[ .-]{{0,2}}{_NAMED_MONTH}[ .,-]{{0,2}}(?:{_YEAR}|[0-9]{{2}})",
    rf"{_NAMED_MONTH}[ .-]{{1,2}}{_DAY},? {_YEAR}",
)
_MOMENT = rf"(?:{'|'.join(_DATES)})(?:(?:t|,? ){_TIME})?|{_TIME}"
_NUMBER = r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:e[+-]?[0-9]+)?"


def require_no_dates(column: pd.Series, where: str | None = None) -> None:
    """Raise DataError for a column of text most of whose values are dates or times.

    A pandas categorical may hold what it likes: somebody said that these are categories.
    """
    if date_example(column) is not None:
        raise holds_dates(str(column.name), where)


def date_example(column: pd.Series) -> str | None:
    """Return a value of a column of text most of whose values are dates or times; None for other columns.

    >>> date_example(pd.Series(["unknown", "2024-03-01", "2024-05-17 08:30"]))
    '2024-03-01'
    """
    values = _text(column)
    found = _spelt(values, _MOMENT)
    return str(values[found].iloc[0]) if len(values) and found.mean() >= _MOSTLY else None


def words_among_numbers(column: pd.Series) -> tuple[float, str] | None:
    """Return the share of numbers in a column of text that are most of its values, and one of the others.

    None for other columns; text of nothing but numbers is codes that somebody took care to keep as text.

    >>> words_among_numbers(pd.Series(["7.5", "<5", "8", "9.25"]))
    (0.75, '<5')
    """
    values = _text(column)
    found = _spelt(values, _NUMBER)
    share = float(found.mean()) if len(values) else 0.0
    return (share, str(values[~found].iloc[0])) if _MOSTLY <= share < 1 else None


def _text(column: pd.Series) -> pd.Series:
    """Return the values of a column of text, some of very many; none of another column."""
    if isinstance(column.dtype, pd.CategoricalDtype) or column_kind(column) != "text":
        return pd.Series([], dtype=str)
    present = column.dropna()
    return present.iloc[:: -(-len(present) // _LOOKED_AT)].astype(str).str.strip()


def _spelt(values: pd.Series, pattern: str) -> pd.Series:
    return values.str.fullmatch(pattern, case=False).astype(bool)
