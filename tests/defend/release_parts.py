"""What the tests of both differentially private defenses share."""

import torch
from torch import nn

from colonnade.defend.registry import make_defense


def records(seed=0, count=300):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def ready(name, seed=0, **strength):
    """A defense that has met its bottom model, and that model."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bottom = nn.Sequential(nn.Linear(5, 40), nn.BatchNorm1d(40), nn.ReLU())
    defense = make_defense(name, **strength)
    defense.seed(seed)
    bottom = defense.extend(bottom, (5,))
    defense.prepare(bottom, records())
    return defense, bottom
