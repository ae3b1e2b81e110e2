"""Negative log-likelihoods of the four kinds of variables, with their gradients, for many variables at once.

Every function takes the decoders' outputs (f, n, o) and targets (f, n) and returns losses (f, n) and the gradient
of each loss with respect to its own outputs (f, n, o). Terms that depend on the data alone are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from colonnade.discover.variables import Array

VARIANCE_FLOOR = 1e-3
LOG_RATE_CAP = 8.0
"""Above this the Poisson loss goes on as a straight line: the rate stays finite and the gradient never dies."""


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow."""
    out: Array = np.tanh(0.5 * x)
    out += 1.0
    out *= 0.5
    return out


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) without overflow."""
    out: Array = np.log1p(np.exp(-np.abs(x)))
    out += np.maximum(x, 0.0)
    return out


def gaussian_head(outputs: Array, target: Array) -> tuple[Array, Array]:
    """Gaussian with a mean and a variance that both depend on the causes: variance = softplus + floor."""
    raw = outputs[..., 1]
    variance = softplus(raw) + VARIANCE_FLOOR
    return _gaussian(outputs[..., 0], target, variance, sigmoid(raw))


def gaussian_scalar(outputs: Array, target: Array) -> tuple[Array, Array]:
    """Gaussian whose second output is one learned log-variance a variable, whatever the causes are."""
    variance = np.exp(outputs[..., 1])
    return _gaussian(outputs[..., 0], target, variance + VARIANCE_FLOOR, variance)


def bernoulli(outputs: Array, target: Array) -> tuple[Array, Array]:
    """Bernoulli with a logit."""
    logit = outputs[..., 0]
    return softplus(logit) - target * logit, (sigmoid(logit) - target)[..., None]


def poisson(outputs: Array, target: Array) -> tuple[Array, Array]:
    """Poisson with a log rate."""
    log_rate = outputs[..., 0]
    capped = np.minimum(log_rate, LOG_RATE_CAP)
    rate = np.exp(capped)
    return rate * (1.0 + log_rate - capped) - target * log_rate, (rate - target)[..., None]


def categorical(outputs: Array, target: Array) -> tuple[Array, Array]:
    """Softmax over levels; outputs of levels that a variable does not have are -inf."""
    top = outputs.max(axis=-1, keepdims=True)
    delta = np.exp(outputs - top)
    total = delta.sum(axis=-1, keepdims=True)
    chosen = target.astype(np.intp)[..., None]
    losses = np.log(total) + top - np.take_along_axis(outputs, chosen, axis=-1)
    delta /= total
    np.put_along_axis(delta, chosen, np.take_along_axis(delta, chosen, axis=-1) - 1.0, axis=-1)
    return losses[..., 0], delta


def _gaussian(mean: Array, target: Array, variance: Array, slope: Array) -> tuple[Array, Array]:
    """`slope` is the derivative of the variance with respect to the second output."""
    precision = 1.0 / variance
    residual = mean - target
    pull = residual * precision
    square = residual * pull
    delta = np.empty((*mean.shape, 2))
    delta[..., 0] = pull
    delta[..., 1] = 0.5 * precision * (1.0 - square) * slope
    return 0.5 * (np.log(variance) + square), delta


def information(likelihood: Callable[[Array, Array], tuple[Array, Array]], outputs: Array) -> Array:
    """Return the Fisher information of each output (f, n, o), for a softmax that of outputs less their mean."""
    if likelihood is categorical:
        delta = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        chances: Array = delta / delta.sum(axis=-1, keepdims=True)
        return chances
    first = outputs[..., :1]
    if likelihood is bernoulli:
        return sigmoid(first) * sigmoid(-first)
    if likelihood is poisson:
        return np.exp(np.minimum(first, LOG_RATE_CAP))
    raw = outputs[..., 1:]
    if likelihood is gaussian_scalar:
        return 1.0 / (np.exp(raw) + VARIANCE_FLOOR)
    variance = np.logaddexp(0.0, raw) + VARIANCE_FLOOR
    return np.concatenate([1.0 / variance, 0.5 * np.square(sigmoid(raw) / variance)], axis=-1)
