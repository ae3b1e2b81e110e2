"""How much of a record could be read back from its upload, to first order: InvLoss and InvRE.

Near a record the defended map is its Jacobian G = U S V^T. A direction v_i of the record that G stretches well can be
read back, one that it flattens or drowns in noise can't. The original's text could not be obtained: these are the
bounds that another paper quotes (Eq. 6 and 39 of CausShield), with our own definition of what is left open. So compare
numbers of one setting with each other, never with published ones.

`function` maps a batch of records to a batch of uploads and treats every record alone (batch norms in evaluation mode).
G itself is never formed: directions are pushed forward and pulled back, for all records of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats

if TYPE_CHECKING:  # importing a measure loads no torch
    from torch import Generator, Tensor

    BatchMap = Callable[[Tensor], Tensor]

EXACT = 512
"""Records of up to so many numbers get their whole spectrum; longer ones by randomised subspace iteration."""
OVERSAMPLING, PASSES = 10, 2
SMALLEST = 1e-3
"""Singular values below this share of the greatest count as zero."""
FLOOR = 0.01
"""No upload is read more finely than this share of its root mean square."""
DRAWS = 16
_NUMBERS_AT_ONCE = 2**25


@dataclass(frozen=True)
class InversionRisk:
    """What an attacker could read of each record.

    Attributes:
        loss: InvLoss, the squared error that even the best linear reader of the upload makes.
        risk: InvRE = 1 - loss / (squared error of guessing the centre): 0 nothing can be read, 1 everything.
    """

    loss: Floats
    risk: Floats


@dataclass(frozen=True)
class Spectrum:
    """The greatest singular values of each record's Jacobian, in falling order, and their directions.

    Attributes:
        values: one row a record.
        right: directions in the record, (records, rank, numbers of a record).
        left: directions in the upload, (records, rank, numbers of an upload); zero where the value is zero.
    """

    values: Tensor
    right: Tensor
    left: Tensor


def inversion_risk(
    function: BatchMap,
    records: Tensor,
    *,
    centre: Tensor | None = None,
    noise: float | BatchMap = 0.0,
    rank: int = 256,
    seed: int = 0,
) -> InversionRisk:
    """Return InvLoss and InvRE of every record; take the mean over at least 256 of them.

    The trivial attacker guesses the centre and has InvRE 0; an upload that is the record itself has nearly 1.

    Args:
        function: the defended map without its noise, batch to batch.
        records: prepared records, one row each.
        centre: what anybody knows, the mean record; None takes the mean of `records`.
        noise: the noise in uploads: its standard deviation, or a callable that draws it for a batch of records.
        rank: directions looked at; the attacker is taken to read none beyond them.
        seed: where the random directions of the iteration come from.

    >>> import torch
    >>> records = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    >>> inversion_risk(lambda x: x[:, :1], records).risk.round(2).tolist()  # one column of two, with 1/5 of the square
    [0.2, 0.2]
    """
    import torch

    if records.dim() < 2 or not len(records):
        raise DataError("there are no records", where="inversion risk", remedy="give one row a record")
    generator = torch.Generator(records.device).manual_seed(seed)
    centre = records.mean(0) if centre is None else centre
    losses, energies = [], []
    for part in _parts(function, records, rank):
        found = spectrum(function, part, rank, generator)
        centred = (part - centre).flatten(1)
        losses.append(_loss(found, centred, _noise_power(found, function, part, noise)))
        energies.append(centred.square().sum(1))
    loss = np.asarray(torch.cat(losses).double().cpu())
    energy = np.asarray(torch.cat(energies).double().cpu())
    with np.errstate(divide="ignore", invalid="ignore"):
        return InversionRisk(loss, np.where(energy > 0, 1 - loss / energy, np.nan))


def spectrum(function: BatchMap, records: Tensor, rank: int, generator: Generator) -> Spectrum:
    """Return the `rank` greatest singular values of each record's Jacobian, and their directions."""
    import torch

    count, size = len(records), records[0].numel()
    if size <= EXACT:
        basis = torch.eye(size, device=records.device).expand(count, size, size)
    else:
        probes = min(rank + OVERSAMPLING, size)
        basis = _draw((count, probes, size), records, generator)
        for _ in range(PASSES):
            basis = _orthonormal(pull(function, records, push(function, records, basis)))
    images = push(function, records, basis).flatten(2)
    squares, turn = _eigen(_gram(images))
    rank = min(rank, squares.shape[1])
    values = squares[:, :rank].sqrt().to(basis)
    turn = turn[:, :, :rank].mT.to(basis)
    left = turn @ images
    left = torch.where(values[..., None] > 0, left / values[..., None], torch.zeros_like(left))
    return Spectrum(values, turn @ basis, left)


def common_directions(function: BatchMap, records: Tensor, rank: int, generator: Generator) -> Tensor:
    """Return the `rank` directions that the Jacobians of all `records` stretch most on average, one row each.

    These are the first eigenvectors of the mean of G^T G.
    """
    import torch

    size = records[0].numel()
    if size <= rank + OVERSAMPLING:
        basis = torch.eye(size, device=records.device)
    else:
        basis = _draw((rank + OVERSAMPLING, size), records, generator)
        for _ in range(PASSES):
            stretched = push(function, records, basis.expand(len(records), *basis.shape))
            basis = _orthonormal(pull(function, records, stretched).mean(0))
    images = push(function, records, basis.expand(len(records), *basis.shape)).flatten(2)
    turn = _eigen(_gram(images).mean(0))[1].to(basis)
    return turn[:, :rank].mT @ basis


def push(function: BatchMap, records: Tensor, directions: Tensor) -> Tensor:
    """Return G d for every direction d of every record: (records, directions, shape of an upload).

    Args:
        function: batch to batch, every record alone.
        records: where the Jacobians are taken.
        directions: (records, directions, numbers of a record).
    """
    from torch.func import jvp, vmap

    def along(tangent: Tensor) -> Tensor:
        moved: Tensor = jvp(function, (records,), (tangent,))[1]
        return moved

    tangents = directions.transpose(0, 1).reshape(-1, *records.shape)
    pushed: Tensor = vmap(along, chunk_size=_chunk(records))(tangents)
    return pushed.transpose(0, 1)


def pull(function: BatchMap, records: Tensor, directions: Tensor) -> Tensor:
    """Return G^T d for every direction d in every upload: (records, directions, numbers of a record).

    Args:
        function: batch to batch, every record alone.
        records: where the Jacobians are taken.
        directions: (records, directions, shape of an upload).
    """
    from torch.func import vjp, vmap

    back = vjp(function, records)[1]

    def along(cotangent: Tensor) -> Tensor:
        moved: Tensor = back(cotangent)[0]
        return moved

    pulled: Tensor = vmap(along, chunk_size=_chunk(records))(directions.transpose(0, 1).contiguous())
    return pulled.transpose(0, 1).flatten(2)


def _loss(found: Spectrum, centred: Tensor, noise_power: Tensor) -> Tensor:
    """Return InvLoss: each direction is read with its noise or guessed at the centre, whichever errs less."""
    import torch

    energy = (found.right @ centred[..., None])[..., 0].square()
    readable = found.values > SMALLEST * found.values[:, :1]
    read_error = torch.where(readable, noise_power / found.values.square(), torch.inf)
    beyond = (centred.square().sum(1) - energy.sum(1)).clamp(min=0)
    return torch.minimum(energy, read_error).sum(1) + beyond


def _noise_power(found: Spectrum, function: BatchMap, records: Tensor, noise: float | BatchMap) -> Tensor:
    """Return the noise's variance along each left direction, the floor of measurement added."""
    import torch

    with torch.no_grad():
        floor = (FLOOR**2) * function(records).float().flatten(1).square().mean(1, keepdim=True)
        if not callable(noise):
            return floor + noise**2
        draws = torch.stack([noise(records).float().flatten(1) for _ in range(DRAWS)], dim=2)
        return floor + (found.left @ draws).square().mean(2)


def _parts(function: BatchMap, records: Tensor, rank: int) -> tuple[Tensor, ...]:
    """Cut records into batches whose directions fit into memory."""
    import torch

    with torch.no_grad():
        size = max(records[0].numel(), function(records[:1]).numel())
    probes = records[0].numel() if records[0].numel() <= EXACT else rank + OVERSAMPLING
    return torch.split(records, max(1, _NUMBERS_AT_ONCE // (size * probes)))


def _chunk(records: Tensor) -> int:
    """Return how many directions travel at once: a network's inner maps are wider than records, 16 times or so."""
    return max(1, _NUMBERS_AT_ONCE // (16 * records.numel()))


def _draw(shape: tuple[int, ...], like: Tensor, generator: Generator) -> Tensor:
    import torch

    return torch.randn(shape, generator=generator, device=generator.device).to(like)


def _orthonormal(directions: Tensor) -> Tensor:
    """Return an orthonormal basis of the directions' span, one row a direction."""
    import torch

    basis: Tensor = torch.linalg.qr(directions.mT).Q
    return basis.mT


def _gram(images: Tensor) -> Tensor:
    """Return the products of a record's images with each other; in float64, because they square what is small."""
    return images.double() @ images.double().mT


def _eigen(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues in falling order, and eigenvectors as columns."""
    import torch

    values, vectors = torch.linalg.eigh(gram)
    return values.flip(-1).clamp(min=0), vectors.flip(-1)
