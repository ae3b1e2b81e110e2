"""The linear attacker: logistic regression for classes, ridge regression for numbers."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from colonnade.attack.attribute.base import ATTRIBUTE_ATTACKERS, AttributeAttacker, Pairs, Predictor, with_every_class

_PENALTIES = (1e-1, 10.0, 1e3, 1e5)  # of the squared weights, beside the sum of all records' errors


@ATTRIBUTE_ATTACKERS.register("linear")
class LinearAttacker(AttributeAttacker):
    """Logistic or ridge regression; what a single linear layer finds, without a training that could fail."""

    name: ClassVar[str] = "linear"

    def _learn(self, train: Pairs, held_back: Pairs) -> Predictor:
        return held_back.best_of([_regression(train, penalty) for penalty in _PENALTIES])


def _regression(train: Pairs, penalty: float) -> Predictor:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge

    if not train.classes:
        ridge = Ridge(alpha=penalty).fit(train.uploads, train.secret)
        return lambda uploads: np.asarray(ridge.predict(uploads), dtype=np.float64)
    with warnings.catch_warnings():  # stopped before its end it is one more candidate, judged like the others
        warnings.simplefilter("ignore", ConvergenceWarning)
        logistic = LogisticRegression(C=1 / penalty, max_iter=200).fit(train.uploads, train.secret)
    return lambda uploads: with_every_class(logistic.predict_proba(uploads), logistic.classes_, train.classes)
