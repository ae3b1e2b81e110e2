"""What the top model answers to every coalition of parties, all of them in a few passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from colonnade.nets.blocks import Dense
from colonnade.nets.split import Top

ROWS_AT_ONCE = 4096
"""Records times coalitions in one pass: more of them fall out of the processor's cache."""


def coalition_outputs(network: Top, rows: Sequence[Tensor], means: Sequence[Tensor]) -> Tensor:
    """Return raw outputs (coalition, record, output), with mean uploads in the places of those who are absent.

    Args:
        network: the top model, in evaluation mode.
        rows: each party's uploads, the same records for all.
        means: each party's mean upload.

    Returns:
        One row for each of the 2^K coalitions: party k takes part where bit k of the row's number is set.
    """
    everybody = torch.arange(len(rows), device=rows[0].device)
    members = (torch.arange(2 ** len(rows), device=rows[0].device)[:, None] >> everybody) & 1
    pass_on = _from_first_layer if isinstance(network.body[0], Dense) and not network.by_width else _from_uploads
    parts = torch.split(members, max(1, ROWS_AT_ONCE // len(rows[0])))
    return pass_on(network, rows, means, parts).view(len(members), len(rows[0]), -1)


def _from_uploads(network: Top, rows: Sequence[Tensor], means: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    outputs = []
    for members in parts:
        joined = []
        for party, (row, mean) in enumerate(zip(rows, means, strict=True)):
            present = members[:, party].bool().view(-1, *[1] * row.dim())
            joined.append(torch.where(present, row, mean).flatten(0, 1))
        outputs.append(network(joined))
    return torch.cat(outputs)


def _from_first_layer(network: Top, rows: Sequence[Tensor], means: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    """Pass the first layer once for each party instead of once for each coalition: before its ReLU, parties add up."""
    first, rest = network.body[0], network.body[1:]
    assert isinstance(first, Dense)
    blocks = torch.split(first.weight, [mean.numel() for mean in means], dim=1)
    brought = [(row - mean).flatten(1) @ block.T.to(row) for row, mean, block in zip(rows, means, blocks, strict=True)]
    changes = torch.stack(brought).flatten(1)
    nobody = first(network.join([mean[None] for mean in means]))
    return torch.cat(
        [rest((members.to(changes) @ changes).view(-1, nobody.shape[1]).add_(nobody)) for members in parts]
    )
