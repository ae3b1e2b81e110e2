"""How good are predicted classes?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from sklearn import metrics

from colonnade.errors import DataError


def accuracy(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Share of records whose class was predicted rightly. Always guessing the commonest class gives its share.

    >>> accuracy([0, 1, 1, 1], [0, 1, 0, 1])
    0.75
    """
    predicted, truth = _paired(predicted, truth)
    return float(np.mean(predicted == truth))


def balanced_accuracy(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Accuracy within each true class, averaged. Always guessing one of k classes gives 1/k.

    >>> balanced_accuracy([1, 1, 1, 1], [0, 1, 1, 1])
    0.5
    """
    predicted, truth = _paired(predicted, truth)
    return float(np.mean([np.mean(predicted[truth == label] == label) for label in np.unique(truth)]))


def f1(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """F1 of class 1 for two classes 0 and 1, else the plain mean over the classes that occur.

    Always guessing class 1 of share p gives 2p / (1 + p).

    >>> f1([1, 1, 0, 0], [1, 0, 0, 0])
    0.6666666666666666
    """
    predicted, truth = _paired(predicted, truth)
    binary = set(np.unique([predicted, truth]).tolist()) <= {0, 1}
    return float(metrics.f1_score(truth, predicted, average="binary" if binary else "macro", zero_division=0.0))


def log_loss(probabilities: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Mean of minus the logarithm of the probability given to the true class. Lower is better.

    Guessing every class with its share gives the entropy of the shares.

    Args:
        probabilities: one row a record and one column a class, or for two classes the probability of class 1.
        truth: class numbers from 0.

    >>> round(log_loss([[0.5, 0.5], [0.5, 0.5]], [0, 1]), 4)
    0.6931
    """
    table = _table(probabilities)
    truth = _class_numbers(table, truth)
    given = table[np.arange(len(truth)), truth]
    return float(-np.mean(np.log(np.clip(given, np.finfo(np.float64).eps, 1))))


def auc(probabilities: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Area under the receiver operating curve; for more than two classes each against the rest, averaged.

    Any constant guess gives 0.5. Classes that do not occur in `truth` are left out; where only one occurs there is
    no curve and the answer is NaN.

    Args:
        probabilities: one row a record and one column a class, or for two classes the score of class 1.
        truth: class numbers from 0.

    >>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    table = _table(probabilities)
    truth = _class_numbers(table, truth)
    present = np.unique(truth)
    if len(present) < 2:
        return math.nan
    columns = [1] if table.shape[1] == 2 else present.tolist()
    return float(np.mean([metrics.roc_auc_score(truth == column, table[:, column]) for column in columns]))


def classification_scores(probabilities: npt.ArrayLike, truth: npt.ArrayLike) -> dict[str, float]:
    """All scores of this module for one set of predicted probabilities.

    >>> scores = classification_scores([0.2, 0.9, 0.4], [0, 1, 1])
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'accuracy': 0.667, 'balanced_accuracy': 0.75, 'f1': 0.667, 'auc': 1.0, 'log_loss': 0.415}
    """
    table = _table(probabilities)
    predicted = table.argmax(axis=1)
    return {
        "accuracy": accuracy(predicted, truth),
        "balanced_accuracy": balanced_accuracy(predicted, truth),
        "f1": f1(predicted, truth),
        "auc": auc(table, truth),
        "log_loss": log_loss(table, truth),
    }


def _paired(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    left, right = np.asarray(predicted), np.asarray(truth)
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        remedy = "give one prediction for each of at least one record"
        raise DataError(f"predictions {left.shape} and truth {right.shape} do not pair", where="measure", remedy=remedy)
    return left, right


def _table(probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return one column a class; a single column of probabilities is that of class 1."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    return np.stack([1 - table, table], axis=1) if table.ndim == 1 else table


def _class_numbers(table: npt.NDArray[np.float64], truth: npt.ArrayLike) -> npt.NDArray[np.int64]:
    _, labels = _paired(np.zeros(len(table)), truth)
    numbers = labels.astype(np.int64)
    if not np.array_equal(numbers, labels) or numbers.min() < 0 or numbers.max() >= table.shape[1]:
        remedy = f"number the classes from 0 to {table.shape[1] - 1}"
        raise DataError("truth holds classes that have no column of probabilities", where="measure", remedy=remedy)
    return numbers
