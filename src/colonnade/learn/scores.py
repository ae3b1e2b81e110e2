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
    found = {"accuracy": accuracy(outputs.argmax(1).cpu().numpy(), expected)}
    if outputs.shape[1] != 2:
        return found
    # Not of probabilities: all margins above 17 become 1 in single precision, and their order, which AUC is, is lost.
    margins = outputs.cpu().double().diff(dim=1).squeeze(1)
    return found | {"auc": auc(margins.numpy(), expected)}
