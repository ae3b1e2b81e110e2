"""A trained model over split columns: predict, score, save, load."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from colonnade.data.read import read_table
from colonnade.data.records import Records
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.agreement import Agreement
from colonnade.learn.part import Part, TopPart, of_one_model
from colonnade.measure.classify import accuracy
from colonnade.measure.regress import r2
from colonnade.run import write_atomically

Missing = Literal["refuse", "impute"]
Frames = pd.DataFrame | Mapping[str, Any] | str | Path


@dataclass(frozen=True, repr=False)
class Prediction:
    """Answers for records, and for each whether a party's upload had to be imputed.

    Attributes:
        labels: the predicted label of every record, indexed by id.
        probabilities: one column per class; None for regression.
        imputed: True where a party's upload was missing and its mean upload stood in (records × parties).
    """

    labels: pd.Series[Any]
    probabilities: pd.DataFrame | None
    imputed: pd.DataFrame

    def __len__(self) -> int:
        return len(self.labels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.labels, dtype=dtype)

    def __repr__(self) -> str:
        affected = int(self.imputed.any(axis=1).sum())
        lines = [f"Prediction for {len(self)} records, {affected} of them with imputed uploads"]
        lines += [f"  {party}: {int(count)} records imputed" for party, count in self.imputed.sum().items() if count]
        return "\n".join([*lines, str(self.labels.head())])


class VerticalModel:
    """One model, one part of it at each party.

    Attributes:
        agreement: what the parties agreed on.
        parts: each party's part; a process on a network holds its own alone.
        federation: whom it was trained with, where that happened in this process; never saved with the model.
    """

    def __init__(self, agreement: Agreement, parts: Mapping[str, Part], federation: Federation | None = None) -> None:
        self.agreement, self.parts, self.federation = agreement, dict(parts), federation

    def __getstate__(self) -> dict[str, Any]:
        # Whoever passes a model on does not mean to pass on the records it was trained with.
        return {**vars(self), "federation": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        for part in self.parts.values():
            if part.bottom:
                # As after `load`: of two that go on with one stream, the difference of two uploads is free of noise.
                defense = part.bottom.defense
                defense.seed(secrets.randbits(256), defense.generator.device)

    @property
    def scores(self) -> dict[str, float]:
        """Scores on the test records; empty where the active party's part is not here."""
        return dict(self._result.get("test", {}))

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch: losses and validation scores, weights, what the active party's own defense measured."""
        return pd.DataFrame(self._result.get("history", []))

    @property
    def looks(self) -> pd.DataFrame:
        """One row per look at the Shapley weights: `step`, and each party's weight from there on as `weight_<party>`.

        Of very many looks 256 are kept at most. Empty where weights do not come from looks.
        """
        looks = self._result.get("looks", [])
        steps = pd.Series([look["step"] for look in looks], name="step", dtype="int64")
        return steps.to_frame().join(pd.DataFrame([look["weights"] for look in looks]).add_prefix("weight_"))

    @property
    def contributions(self) -> dict[str, float]:
        """Each party's share of what all uploads bring to the test records (Shapley); the shares sum to 1.

        Uploads of other records stand in for those of absent parties (see `colonnade.learn.contributions`). A share
        near zero says that these do as well as the party's own. One clearly below zero says that they do better: what
        the model learned from that party misleads it on these records. Without the party, another model would have
        been learned; how well that one does, no share says. Empty where all uploads together bring nothing.
        """
        return dict(self._result.get("contributions", {}))

    @property
    def classes(self) -> list[Any]:
        """The classes, in the order of the probabilities; empty for regression."""
        return list(self._top.label.classes)

    def predict(self, frame: Frames, missing: Missing = "refuse") -> Prediction:
        """Answer for every record in `frame`.

        Args:
            frame: all parties' columns (index = ids), one frame (or image array) per party, or a path to a table.
            missing: `refuse` raises when a party lacks a record; `impute` lets the party's mean upload stand in.
        """
        ids, uploads, held = self._uploads(frame)
        imputed = pd.DataFrame({party: ~mask for party, mask in held.items()}, index=ids)
        if missing not in ("refuse", "impute"):
            raise ConfigError(f"unknown policy '{missing}'", where="missing", remedy="use 'refuse' or 'impute'")
        if missing == "refuse" and imputed.any(axis=None):
            party, count = max(imputed.sum().items(), key=lambda item: int(item[1]))
            raise DataError(
                f"lacks {int(count)} of {len(ids)} records",
                where=str(party),
                remedy="give the records, or missing='impute'",
            )
        return answer(self._top, ids, uploads, imputed)

    def predict_proba(self, frame: Frames, missing: Missing = "refuse") -> pd.DataFrame:
        """Return one probability per class and record."""
        probabilities = self.predict(frame, missing).probabilities
        if probabilities is None:
            raise ConfigError("a regression has no probabilities", where="predict_proba", remedy="use predict")
        return probabilities

    def score(
        self, frame: Frames, label: pd.Series[Any] | npt.ArrayLike | None = None, missing: Missing = "refuse"
    ) -> float:
        """Return accuracy, or R² for a regression.

        Args:
            frame: as for `predict`.
            label: the truth: a series goes by its index, anything else by the position of the records; None takes the
                label's column of `frame`.
            missing: as for `predict`; `impute` leaves records out that `label` does not speak of.
        """
        if isinstance(frame, str | Path):
            frame = read_table(Path(frame))
        label = self._label_in(frame) if label is None else label
        guessed = self.predict(frame, missing).labels
        truth = _truth(label, guessed.index, missing)
        prepare = self._top.label.transform  # text that spells a number is not that number: it says so
        measure = r2 if self._top.label.kind == "regression" else accuracy
        return measure(prepare(guessed.loc[truth.index]), prepare(truth))

    def uploads(self, frame: Frames) -> dict[str, Tensor]:
        """Return what each party would upload for the records it holds of `frame`."""
        return self._uploads(frame)[1]

    def save(self, folder: Path | str) -> Path:
        """Write the whole model: one folder per party, no pickle."""
        folder = Path(folder)
        for party, part in self.parts.items():
            part.save(folder / party)
        agreed = self.agreement
        described = {
            "format": 1,
            "run": agreed.run,
            "parties": agreed.parties,
            "active": agreed.active,
            "seed": agreed.seed,
            "task": agreed.task.model_dump(mode="json"),
        }
        write_atomically(folder / "model.json", json.dumps(described, indent=1).encode())
        return folder

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu") -> VerticalModel:
        """Read what `save` wrote."""
        folder = Path(folder)
        try:
            described = json.loads((folder / "model.json").read_text())
            agreement = Agreement(
                described["run"],
                tuple(described["parties"]),
                described["active"],
                Task.model_validate(described["task"]),
                described["seed"],
            )
        except FileNotFoundError as error:
            raise RunError("no saved model", where=str(folder), remedy="give the folder of a saved model") from error
        except (KeyError, ValueError) as error:
            raise RunError(
                f"model.json is damaged: {error}", where=str(folder), remedy="save the model anew"
            ) from error
        parts = {party: Part.load(folder / party, device) for party in agreement.parties}
        return cls(agreement, of_one_model(parts, agreement.active))

    @property
    def _result(self) -> dict[str, Any]:
        active = self.parts.get(self.agreement.active)
        return active.result if active else {}

    @property
    def _top(self) -> TopPart:
        active = self.parts.get(self.agreement.active)
        if active is None or active.top is None:
            raise RunError("the active party's part has no top model", where=self.agreement.active)
        return active.top

    def _label_in(self, frame: pd.DataFrame | Mapping[str, Any]) -> pd.Series[Any]:
        """Return the label that the active party's own part of `frame` holds."""
        name = self._top.label_name
        owner = frame.get(self.agreement.active) if isinstance(frame, Mapping) else frame
        if isinstance(owner, Records) and owner.label is not None:
            return owner.label
        if not isinstance(owner, pd.DataFrame) or name not in owner:
            raise DataError(f"no label column '{name}'", where="frame", remedy="give label=")
        return owner[name]

    def _uploads(self, frame: Frames) -> tuple[pd.Index[Any], dict[str, Tensor], dict[str, npt.NDArray[np.bool_]]]:
        """Return the ids asked for, each party's uploads, and which of the ids each party holds."""
        records = {party: self.records_of(party, frame) for party in self._top.means}
        given = [found.ids for found in records.values() if found is not None]
        if not given:
            raise DataError("no party holds any of the records", where="frame", remedy="give the parties' columns")
        ids = given[0]
        for more in given[1:]:
            ids = ids.append(more.difference(ids, sort=False))
        uploads, held = {}, {}
        for party, found in records.items():
            bottom = self.parts[party].bottom
            held[party] = np.zeros(len(ids), bool) if found is None else np.asarray(ids.isin(found.ids))
            if bottom is not None and found is not None:
                uploads[party] = bottom.upload(found.take(found.ids.get_indexer(ids[held[party]])))
        return ids, uploads, held

    def records_of(self, party: str, frame: Frames) -> Records | None:
        """Return what `party` holds of `frame`: the columns its bottom model was trained with; None if nothing."""
        if isinstance(frame, str | Path):
            frame = read_table(Path(frame))
        one = frame.get(party) if isinstance(frame, Mapping) else frame
        if one is None or isinstance(one, Records):
            return one
        if isinstance(one, np.ndarray):
            return Records(pd.RangeIndex(len(one)), images=one)
        bottom = self.parts[party].bottom
        columns = getattr(bottom.preparation, "columns", None) if bottom else None
        return Records.from_frame(one, columns=columns, where=party, for_training=False)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items()) or "not tested"
        lines = [f"VerticalModel of {len(self.parts)} parties, {self.agreement.task.network.family}; test: {scores}"]
        for party, part in self.parts.items():
            role = "active" if party == self.agreement.active else "passive"
            defense = part.bottom.defense.name if part.bottom else "no columns"
            share = self.contributions.get(party)
            brings = "" if share is None else f"; contribution: {share:.1%}"
            lines.append(f"  {party:<16} {role:<8} defense: {defense}{brings}")
        return "\n".join(lines)


def _truth(label: pd.Series[Any] | npt.ArrayLike, ids: pd.Index[Any], missing: Missing) -> pd.Series[Any]:
    """Return the label of each of these records; under `impute` of those that have one."""
    if not isinstance(label, pd.Series):
        values = np.asarray(label)
        if values.shape != (len(ids),):
            what = f"labels of shape {values.shape} for {len(ids)} records"
            raise DataError(what, where="label", remedy="give one for each record, or a series indexed by id")
        return pd.Series(values, index=ids)
    if not label.index.is_unique:
        raise DataError("ids occur more than once", where="label", remedy="give one label for each record")
    held = ids[ids.isin(label.index)]
    if len(held) < len(ids) and (missing == "refuse" or not len(held)):
        what = f"there is no label for {len(ids) - len(held)} of {len(ids)} records"
        raise DataError(what, where="label", remedy="index it by the ids of the records, or give an array")
    return label.loc[held]


def answer(top: TopPart, ids: pd.Index[Any], uploads: Mapping[str, Tensor], imputed: pd.DataFrame) -> Prediction:
    """Let the top model answer; where a party's upload is missing, its mean upload stands in."""
    rows = []
    for party, mean in top.means.items():
        filled = mean.expand(len(ids), *mean.shape).clone()
        held = torch.from_numpy(~imputed[party].to_numpy()).to(mean.device)
        if party in uploads:
            filled[held] = uploads[party].to(mean.device)
        rows.append(filled)
    top.network.eval()
    with torch.no_grad():
        outputs = top.network(rows).cpu()
    if top.label.kind == "regression":
        values = top.label.inverse(outputs.squeeze(1).numpy())
        return Prediction(pd.Series(values, index=ids, name=top.label_name), None, imputed)
    probabilities = outputs.softmax(1).numpy()
    labels = pd.Series(top.label.inverse(probabilities.argmax(1)), index=ids, name=top.label_name)
    return Prediction(labels, pd.DataFrame(probabilities, index=ids, columns=list(top.label.classes)), imputed)
