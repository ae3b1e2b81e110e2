"""The oracle: a decoder trained on true pairs of upload and record."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.attack.base import Attack, Strength
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.errors import ConfigError, DataError
from colonnade.nets.decoder import build_decoder
from colonnade.strength import number

FEWEST_PAIRS = 20


@ATTACKS.register("decoder")
class Decoder(Attack):
    """Oracle inversion: a decoder trained on auxiliary records and their true uploads; the ceiling of what leaks.

    The recipe is the strong attacker of ResSFL: mean squared error, Adam, and the true bottom's activations.
    The decoder starts as the mean of the auxiliary records and the best epoch on held-back pairs is kept,
    the start included: where uploads tell nothing, the guess is the mean record and not something worse.

    Args:
        epochs: passes over the pairs.
        batch_size: pairs per step.
        learning_rate: of Adam.
    """

    name: ClassVar[str] = "decoder"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    def __init__(self, epochs: int = 50, batch_size: int = 128, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.epochs = int(number("decoder.epochs", epochs, at_least=1, whole=True))
        self.batch_size = int(number("decoder.batch_size", batch_size, at_least=2, whole=True))
        self.learning_rate = number("decoder.learning_rate", learning_rate, at_least=0)
        self.network: nn.Module | None = None

    def fit(self, evidence: Evidence) -> None:
        """Train the decoder on the auxiliary pairs."""
        uploads, records = evidence.auxiliary_uploads.float().cpu(), evidence.auxiliary_records.float().cpu()
        if len(uploads) != len(records) or len(records) < FEWEST_PAIRS:
            raise DataError(
                f"{len(records)} auxiliary records with {len(uploads)} uploads can't train a decoder",
                where="attack 'decoder'",
                remedy=f"give one upload for each of at least {FEWEST_PAIRS} records",
            )
        order = torch.randperm(len(records), generator=self.generator)
        held_back, train = order.tensor_split([max(len(order) // 10, 1)])
        self._measure_scales(uploads[train], records[train])
        self.network = build_decoder(uploads.shape[1:], records.shape[1:], seed=self.random_seed).to(self.device)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate)
        best_error = self._error(uploads[held_back], records[held_back])
        best = copy.deepcopy(self.network.state_dict())
        for _ in range(self.epochs):
            self._train_epoch(uploads[train], records[train], optimizer)
            error = self._error(uploads[held_back], records[held_back])
            if error < best_error:
                best_error, best = error, copy.deepcopy(self.network.state_dict())
        self.network.load_state_dict(best)

    @torch.no_grad()
    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Return the decoder's guesses, within the range of the auxiliary records, on the CPU."""
        if self.network is None:
            raise ConfigError("it has learned nothing yet", where="attack 'decoder'", remedy="call fit first")
        self.network.eval()
        guesses = [self._decode(part).cpu() for part in torch.split(uploads, 1024)]
        return torch.cat(guesses).clamp(*self._range)

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the recipe's numbers."""
        recipe = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        return {**super().describe(), **recipe}

    def _measure_scales(self, uploads: Tensor, records: Tensor) -> None:
        """Remember what centres and scales uploads (each channel or feature) and records."""
        axes = [0, *range(2, uploads.dim())]
        self._upload_mean = uploads.mean(axes, keepdim=True).to(self.device)
        # A channel that is always the same tells nothing; dividing by one keeps it at zero.
        spread = uploads.std(axes, keepdim=True)
        self._upload_scale = torch.where(spread > 0, spread, 1.0).to(self.device)
        self._record_mean = records.mean(0).to(self.device)
        self._range = (records.min().item(), records.max().item())

    def _decode(self, uploads: Tensor) -> Tensor:
        assert self.network is not None
        scaled = (uploads.to(self.device).float() - self._upload_mean) / self._upload_scale
        guesses: Tensor = self._record_mean + self.network(scaled)
        return guesses

    def _train_epoch(self, uploads: Tensor, records: Tensor, optimizer: torch.optim.Optimizer) -> None:
        assert self.network is not None
        self.network.train()
        for rows in torch.split(torch.randperm(len(records), generator=self.generator), self.batch_size):
            if len(rows) < 2:  # batch normalisation can't take a single record
                continue
            loss = nn.functional.mse_loss(self._decode(uploads[rows]), records[rows].to(self.device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def _error(self, uploads: Tensor, records: Tensor) -> float:
        return nn.functional.mse_loss(self.reconstruct(uploads), records).item()
