"""If these fail, a party that stops tells the others what stands in its files."""

from __future__ import annotations

import pandas as pd
import pytest

from colonnade.data.preparation import LabelPreparation
from colonnade.errors import (
    AlignmentError,
    AuthenticationError,
    ConfigError,
    DataError,
    DeadlineError,
    PeerLostError,
    RunError,
)
from colonnade.wire.local import local_channels
from colonnade.wire.reason import reason_to_tell

FOLDER = "/home/ada/secret-study"


def heard(error):
    """Return what a peer reads when `error` ends the role of `a`, and what `a` itself is left with."""
    a, b, _ = local_channels(["a", "b", "c"]).values()
    with pytest.raises(type(error)) as own, a:
        raise error
    with pytest.raises(PeerLostError) as caught:
        b.recv("a", "upload", 0)
    return str(caught.value), str(own.value)


def label_error(prepare):
    with pytest.raises(DataError) as caught:
        prepare()
    return caught.value


@pytest.mark.parametrize(
    "prepare",
    [
        lambda: LabelPreparation("binary").fit(pd.Series(["hiv-positive"] * 3)),
        lambda: LabelPreparation("binary").fit(pd.Series(["ill", "well"])).transform(pd.Series(["hiv-positive"])),
    ],
    ids=["one value", "a new value"],
)
def test_values_of_the_label_stay_with_the_party_that_has_them(prepare):
    """Passive parties would read labels in their own logs."""
    told, kept = heard(label_error(prepare))
    assert told == "a: stopped: records, columns or labels cannot be used; its own log says why"
    assert "hiv-positive" in kept


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("column 'hiv test date' holds dates or times", where="a"), "records, columns or labels"),
        (ConfigError("hiv.veil is too thick", where="hiv"), "a setting or a file cannot be used"),
        (RunError("does not fit", where=f"{FOLDER}/hiv"), "its run cannot go on"),
        (KeyError("hiv"), r"something unexpected (KeyError)"),
        (pd.errors.ParserError("line 7: hiv"), "something unexpected (ParserError)"),
        (KeyboardInterrupt(), "it was interrupted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_of_an_error_that_is_not_made_for_others_they_learn_the_kind(error, told):
    reason, _ = heard(error)
    assert reason.startswith(f"a: stopped: {told}") and "hiv" not in reason and FOLDER not in reason


def test_the_party_that_is_to_blame_is_named():
    """Whoever gave another federation file would look for the mistake at everybody else."""
    reason, _ = heard(ConfigError("has another federation file than this party", where="c"))
    assert reason == "a: stopped: c: a setting or a file cannot be used; its own log says why"


@pytest.mark.parametrize(
    "error",
    [
        AlignmentError("b and a have no record in common", remedy="check the ids"),
        DeadlineError("no 'upload' within 3 s", where="b"),
        DataError("has other records than the others", where="b", told=True),
    ],
    ids=["alignment", "wire", "marked"],
)
def test_what_everybody_knows_anyway_is_told_in_full(error):
    """Whoever can put it right would have to ask for logs first."""
    assert heard(error)[0] == f"a: stopped: {error}"


def test_folders_stay_out_of_what_is_told():
    found = reason_to_tell(AuthenticationError("the certificate has expired", where=f"{FOLDER}/certificate.pem"), [])
    assert found == "certificate.pem: the certificate has expired"


def test_a_peer_cannot_write_lines_into_a_log():
    """What it sends stands in error messages; a line break or an escape sequence could forge others."""
    forged = str(AlignmentError("has x\nerror: all is well\x1b[2J ids, but 'lab' has string ids", where="b"))
    assert forged.isprintable() and "x\\nerror" in forged
