"""Fig. 1 (b): how near uploads are to those of a few records that stand for their class."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # listing benches loads no torch
    from torch import Tensor, nn

    from colonnade.audit.held_out import HeldOut
    from colonnade.learn.model import VerticalModel

NEIGHBOURS = 10
MOST = 1000
"""Records among which neighbours are looked for."""

CAUSAL_PROXY_NOTE = (
    "the paper defines its causal proxy in words only, this one is ours: of each class, the mean upload of those "
    "auxiliary records that are in the upper half of their class both by confidence and by how many of their 10 "
    "nearest neighbours stay the same from one convolution of the bottom to the next; proxy_cosine is the mean cosine "
    "of other records' uploads to the proxy of their own class, other_cosine that to the proxies of other classes; "
    "only the difference of the two is about classes"
)


def proxy_cosines(model: VerticalModel, known: HeldOut, wanted: HeldOut) -> tuple[float | None, float | None]:
    """Return the mean cosine of uploads to the proxy of their own class, and to those of other classes.

    The paper wants "stable neighborhood relationships across multiple convolutional layers" and "high classification
    confidence", and says no more. Our choices: the victim's own layers and confidence decide, so that proxies lie in
    the same space as the uploads, which under some defenses is a narrower one; confidence is the probability that the
    whole model gives the true class; and both count within a class, so that every class has proxies. Means over the
    parties; None where no class has a proxy, or only one has.

    Args:
        model: the victim.
        known: records that proxies are taken from.
        wanted: records that are compared with them.
    """
    import numpy as np
    import torch

    from colonnade.audit.attacks import bottom_of
    from colonnade.audit.evidence import device_of, prepared

    known = known.take(np.arange(min(MOST, len(known))))
    labels, compared = known.labels, wanted.labels
    assert labels is not None and compared is not None, "the active party is in the same process"
    probabilities = torch.tensor(model.predict_proba(dict(known.records)).to_numpy())
    confidence = probabilities[torch.arange(len(known)), labels.long()]
    found = []
    for party in known.records:
        bottom, device = bottom_of(model, party), device_of(model.parts[party])
        stability = neighbour_stability(bottom.network, prepared(bottom, known.records[party]).to(device)).cpu()
        chosen = stands_for_class(stability, confidence, labels)
        uploads, others = (bottom.upload(part.records[party]).float().cpu().flatten(1) for part in (known, wanted))
        found.append(cosines_to_proxies(uploads[chosen], labels[chosen], others, compared))
    own, other = zip(*found, strict=True)
    return _mean(own), _mean(other)


def neighbour_stability(network: nn.Module, records: Tensor) -> Tensor:
    """Return for each record which share of its nearest neighbours stays, from each convolution to the next."""
    import torch
    from torch import nn

    layers: list[Tensor] = []
    count = min(NEIGHBOURS, len(records) - 1)

    def look(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        layers.append(_neighbours(output.float().flatten(1), count))

    hooks = [part.register_forward_hook(look) for part in network.modules() if isinstance(part, nn.Conv2d)]
    try:
        with torch.no_grad():
            network.eval()(records)
    finally:
        for hook in hooks:
            hook.remove()
    kept = [(now[:, :, None] == after[:, None, :]).any(2).float().mean(1) for now, after in pairwise(layers)]
    return torch.stack(kept).mean(0) if kept else torch.ones(len(records))


def stands_for_class(stability: Tensor, confidence: Tensor, labels: Tensor) -> Tensor:
    """Return a mask of the records that are in the upper half of their class by both."""
    import torch

    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in torch.unique(labels):
        own = labels == label
        upper = [values >= values[own].quantile(0.5) for values in (stability.double(), confidence.double())]
        chosen |= own & upper[0] & upper[1]
    return chosen


def cosines_to_proxies(
    uploads: Tensor, labels: Tensor, others: Tensor, other_labels: Tensor
) -> tuple[float | None, float | None]:
    """Return the mean cosine of `others` to the mean of `uploads` with the same label, and to those with another."""
    import torch
    from torch.nn.functional import normalize

    classes = torch.unique(labels)
    compared = torch.isin(other_labels, classes)
    if len(classes) < 2 or not compared.any():
        return None, None
    proxies = torch.stack([uploads[labels == label].mean(0) for label in classes])
    cosines = normalize(others[compared]) @ normalize(proxies).mT
    same = other_labels[compared][:, None] == classes
    return float(cosines[same].mean()), float(cosines[~same].mean())


def _neighbours(values: Tensor, count: int) -> Tensor:
    """Return the places of the records with the greatest cosine to each, itself left out."""
    from torch.nn.functional import normalize

    values = normalize(values)
    return (values @ values.mT).fill_diagonal_(-2).topk(count, dim=1).indices


def _mean(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
