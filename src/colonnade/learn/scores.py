"""The numbers that tell how well a model does its task."""

from __future__ import annotations

from torch import Tensor

from colonnade.data.preparation import LabelPreparation
from colonnade.measure.classify import accuracy, auc
from colonnade.measure.regress import r2


def scores(outputs: Tensor, targets: Tensor, label: LabelPreparation) -> dict[str, float]:
    """Return the task's metrics for raw `outputs`: accuracy (and AUC for two classes), or R²."""
    expected = targets.cpu().numpy()
    if label.kind == "regression":
        return {"r2": r2(outputs.squeeze(1).cpu().numpy(), expected)}
    probabilities = outputs.softmax(1).cpu().numpy()
    found = {"accuracy": accuracy(probabilities.argmax(1), expected)}
    return found | {"auc": auc(probabilities, expected)} if probabilities.shape[1] == 2 else found
