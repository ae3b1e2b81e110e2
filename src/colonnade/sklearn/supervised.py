"""Vertical training as scikit-learn estimators: the columns of `X` are dealt to parties that train one model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from colonnade.errors import DataError
from colonnade.federation.federation import Federation
from colonnade.learn.model import Prediction, VerticalModel
from colonnade.learn.train import train
from colonnade.sklearn.columns import Parties, RandomState, checked, dealt, named, refused_as_value_error, seed_of

VALIDATION_SHARE = 0.1
"""The share of the records that `patience` watches; without patience all records are trained on."""

Kind = Literal["binary", "multiclass", "regression"]


class _VerticalEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: parameters, dealing columns to parties, training, asking the model."""

    model_: VerticalModel
    parties_: dict[str, list[str]]

    def __init__(
        self,
        parties: Parties | None = None,
        *,
        defense: str | Mapping[str, Any] = "none",
        hidden: Sequence[int] = (64, 32, 32),
        epochs: int = 30,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        patience: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.parties = parties
        self.defense = defense
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # each party's preparation imputes its missing values
        return tags

    def _train(self, frame: pd.DataFrame, target: npt.NDArray[Any], kind: Kind) -> None:
        seed = seed_of(self.random_state)
        self.parties_ = _dealt(self.parties, list(frame.columns))
        label, part = _unused("label", frame), _unused("part", frame)
        parts = _parts(target, self.patience, stratify=kind != "regression", seed=seed)
        validation = 0.0 if self.patience is None else VALIDATION_SHARE
        self.model_ = train(
            Federation.from_frame(
                frame.assign(**{label: target, part: parts}),
                self.parties_,
                label=(next(iter(self.parties_)), label),
                split=part,
            ),
            self.defense,
            seed=seed,
            progress=False,
            kind=kind,
            network={"family": "mlp", "hidden": self.hidden},
            optimizer={"learning_rate": self.learning_rate},
            split={"train": 1 - validation, "validation": validation, "test": 0.0},
            epochs=self.epochs,
            batch_size=self.batch_size,
            patience=self.patience,
        )

    def _training_data(self, X: Any, y: Any, *, y_numeric: bool) -> tuple[pd.DataFrame, npt.NDArray[Any]]:
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, y, skip_check_array=True)
            _, y = check_X_y(np.zeros((len(X), 1)), y, y_numeric=y_numeric)  # X itself is checked where it is prepared
        else:
            X, y = validate_data(self, X, y, ensure_all_finite="allow-nan", y_numeric=y_numeric)
        return named(self, X), y

    def _answer(self, X: Any) -> Prediction:
        check_is_fitted(self)
        with refused_as_value_error():
            return self.model_.predict(checked(self, X, ensure_all_finite="allow-nan", reset=False))


class VerticalClassifier(ClassifierMixin, _VerticalEstimator):  # type: ignore[misc]
    """A classifier whose columns sit at different parties.

    All parties live in this process; what each uploads, and the defense on it, is what it would be over a network.
    A defense that adds noise adds it to predictions too.
    A DataFrame may hold text, categories and missing values, an array numbers and missing values.

    Args:
        parties: each party's columns, by name or by number; columns that no party names are left out. The first
            party is active: it holds `y`, and may hold no column. None deals the columns evenly to two parties.
        defense: what the passive parties do to their uploads: a name from `co.defenses()`,
            `{"name": ..., strength...}`, or one such choice per passive party.
        hidden: widths of the hidden layers; all but the last are at every party that holds columns, and the last at
            the active party. A single one is at the parties.
        epochs: how often every record is trained on.
        batch_size: records per step.
        learning_rate: of the optimiser, Adam.
        patience: stop after so many epochs without a better loss on a tenth of the records, which is then not
            trained on, and keep the best weights. None trains on all records for all epochs.
        random_state: every random choice comes from it; a whole number is the seed that `co.train` would be given.

    Attributes:
        model_: the trained `VerticalModel`; its labels are positions in `classes_`.
        parties_: the columns of each party, by name (`x0`, `x1`, ... where the columns of `X` have none).
        classes_: the labels seen in `y`.
        n_features_in_: how many columns `X` had.
        feature_names_in_: their names, if `X` had names.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from colonnade.sklearn import VerticalClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> flora = {"herbarium": list(X.columns[:2]), "garden": list(X.columns[2:])}
        >>> classifier = VerticalClassifier(flora, random_state=0).fit(X, y)
        >>> classifier.score(X, y) > 0.95
        True
    """

    classes_: npt.NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Train the parties' model on all records of `X` with the classes `y`."""
        with refused_as_value_error():
            frame, y = self._training_data(X, y, y_numeric=False)
            check_classification_targets(y)
            encoder = LabelEncoder().fit(y)
            self.classes_ = encoder.classes_
            if len(self.classes_) < 2:
                raise DataError("all records are of one class", where="y", remedy="give records of two classes or more")
            self._train(frame, encoder.transform(y), "binary" if len(self.classes_) == 2 else "multiclass")
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of every record."""
        numbers = self._answer(X).labels.to_numpy()
        labels: npt.NDArray[Any] = self.classes_[numbers]
        return labels

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Return one probability per record and class, in the order of `classes_`."""
        probabilities = self._answer(X).probabilities
        assert probabilities is not None, "a classification has probabilities"
        return probabilities.to_numpy()


class VerticalRegressor(RegressorMixin, _VerticalEstimator):  # type: ignore[misc]
    """A regression whose columns sit at different parties.

    Its parameters and attributes are those of `VerticalClassifier`, without `classes_`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> from colonnade.sklearn import VerticalRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> parties = {"clinic": range(4), "lab": range(4, 10)}
        >>> VerticalRegressor(parties, random_state=0).fit(X, y).score(X, y) > 0.5
        True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train the parties' model on all records of `X` with the quantities `y`."""
        with refused_as_value_error():
            frame, y = self._training_data(X, y, y_numeric=True)
            self._train(frame, y, "regression")
        return self

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the quantity expected of every record."""
        return self._answer(X).labels.to_numpy()


def _dealt(parties: Parties | None, columns: list[str]) -> dict[str, list[str]]:
    """Return the names of each party's columns, the active party first."""
    if parties is None and len(columns) == 1:
        return {"active": [], "passive": columns}  # the active party does without columns, a passive one cannot
    return dealt(parties, columns, ["active", "passive"])


def _parts(target: npt.NDArray[Any], patience: int | None, *, stratify: bool, seed: int) -> npt.NDArray[np.str_]:
    """Return `train` or `validation` for every record; every class is trained on, and watched where all have room.

    A class that no record is trained on could not be learned, and its validation records would have no loss.
    """
    parts = np.full(len(target), "train", dtype="<U10")
    if patience is None:
        return parts
    count = math.ceil(VALIDATION_SHARE * len(target))
    kinds = target if stratify else np.zeros(len(target))
    classes, first, members = np.unique(kinds, return_index=True, return_counts=True)
    if len(classes) == len(target):
        what = f"a part of the records must be held back, and none of {len(target)} sample(s) can be spared"
        raise DataError(what, where="patience", remedy="give more records of each class, or patience=None")
    if members.min() >= 2 and count >= len(classes):
        chosen = _drawn(np.arange(len(target)), count, kinds if stratify else None, seed)
    else:
        rest = np.delete(np.arange(len(target)), first)
        chosen = rest if len(rest) <= count else _drawn(rest, count, None, seed)
    parts[chosen] = "validation"
    return parts


def _drawn(rows: npt.NDArray[Any], count: int, classes: npt.NDArray[Any] | None, seed: int) -> npt.NDArray[Any]:
    drawn: npt.NDArray[Any] = train_test_split(rows, test_size=count, stratify=classes, random_state=seed % 2**32)[1]
    return drawn


def _unused(name: str, frame: pd.DataFrame) -> str:
    while name in frame:
        name += "_"
    return name
