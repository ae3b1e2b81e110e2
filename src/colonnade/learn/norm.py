"""Batch norms over a batch that several processes hold a part of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from colonnade.learn.team import Team


class BatchWide(TorchFunctionMode):
    """While it lasts, batch norms take their statistics from the shares of all processes, which must enter it together.

    It stands in for the function that all batch norms call. So the network stays as it is, where PyTorch's own
    `SyncBatchNorm`, which processors lack, is another module; and a defense that uses it alone waits for nobody.
    """

    def __init__(self, team: Team) -> None:
        super().__init__()
        self._team = team

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is functional.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(  # noqa: PLR0917 - as the function that it stands in for
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training:
            return functional.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
        output, mean, variance, count = _Normalised.apply(self._team, x, weight, bias, eps)  # type: ignore[no-untyped-call]
        _follow(running_mean, mean, momentum)
        _follow(running_var, variance * count / (count - 1), momentum)
        return cast(Tensor, output)


class _Normalised(torch.autograd.Function):
    """This process's share of a batch, by mean and variance of the whole batch.

    Written out, because composed of single steps it would read and write the maps several times more.
    """

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd gives all arguments by their place
        ctx: Any, team: Team, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, count = _statistics(team, x)
        ctx.save_for_backward(x, weight, bias, mean, torch.rsqrt(variance + eps), count)
        ctx.team = team
        ctx.mark_non_differentiable(mean, variance, count)
        return functional.batch_norm(x, mean, variance, weight, bias, eps=eps), mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale, count = ctx.saved_tensors
        centred, slope = _wide(x) - _each_channel(mean, x), _wide(gradient)
        own_sum, own_product = _over_records(slope), _over_records(slope * centred) * scale
        total_sum, total_product = ctx.team.add_up(torch.stack([own_sum, own_product])) / count
        steepness = scale if weight is None else scale * weight
        inner = torch.addcmul(slope - _each_channel(total_sum, x), centred, _each_channel(-total_product * scale, x))
        # Weights get this process's part alone: it is added to the others' with all other weights.
        return (
            None,
            inner.mul_(_each_channel(steepness, x)).to(x.dtype),
            None if weight is None else own_product,
            None if bias is None else own_sum,
            None,
        )


def _statistics(team: Team, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance of each channel over the shares of all processes, and how many numbers they are of."""
    own_variance, own_mean = torch.var_mean(_wide(x), [0, *range(2, x.dim())], correction=0)
    table = own_mean.new_zeros(team.size, 2 * len(own_mean) + 1)
    table[team.rank] = torch.cat([own_mean, own_variance, own_mean.new_tensor([x.numel() / x.shape[1]])])
    told, counts = team.add_up(table)[:, :-1], table[:, -1:]
    means, variances = told.chunk(2, dim=1)
    mean = (counts * means).sum(0) / counts.sum()
    variance = (counts * (variances + (means - mean).square())).sum(0) / counts.sum()
    return mean, variance, counts.sum()


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _over_records(x: Tensor) -> Tensor:
    return x.sum([0, *range(2, x.dim())])


def _each_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (x.dim() - 2))


@torch.no_grad()
def _follow(running: Tensor | None, now: Tensor, momentum: float) -> None:
    if running is not None:
        running.lerp_(now.to(running.dtype), momentum)
