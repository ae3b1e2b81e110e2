"""The boosting attacker: histogram gradient boosting, which finds thresholds and interactions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from colonnade.attack.attribute.base import (
    ATTRIBUTE_ATTACKERS,
    AttributeAttacker,
    Pairs,
    Predictor,
    Uploads,
    with_every_class,
)

_ROUNDS = 200


@ATTRIBUTE_ATTACKERS.register("boosting")
class BoostingAttacker(AttributeAttacker):
    """Histogram gradient boosting; of 200 rounds it keeps as many as are best on the pairs held back."""

    name: ClassVar[str] = "boosting"
    most_numbers: ClassVar[int] = 512

    def _learn(self, train: Pairs, held_back: Pairs) -> Predictor:
        fitted = _boosting(train, self.random_seed)
        errors = [held_back.error(told) for told in _stages(fitted, held_back.uploads, train.classes)]
        best = int(np.argmin(errors))

        def predict(uploads: Uploads) -> npt.NDArray[np.float64]:
            return next(islice(_stages(fitted, uploads, train.classes), best, None))

        return predict


def _boosting(train: Pairs, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if train.classes else HistGradientBoostingRegressor
    # Stopping early by itself would need every class twice, and would not go back to its best round.
    boosting = kind(max_iter=_ROUNDS, early_stopping=False, l2_regularization=1.0, random_state=seed)
    return boosting.fit(train.uploads, train.secret)


def _stages(fitted: Any, uploads: Uploads, classes: int) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the predictions after each round."""
    if not classes:
        yield from fitted.staged_predict(uploads)
        return
    for told in fitted.staged_predict_proba(uploads):
        yield with_every_class(told, fitted.classes_, classes)
