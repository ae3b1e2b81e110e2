"""How near a trained model is to an equilibrium: what each party could still gain alone, and how values moved.

Columns bear the paper's letters: u is the value of the task (minus its loss), q a party's weight, c what its uploads
give away of its secrets, V = α c − q u what the party minimises (Eq. 5), F = u − Σ α c what all want together (Eq. 1).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from colonnade.data.batches import Positions, epoch_batches
from colonnade.data.secrets import UNKNOWN, Secret, prepare_secrets
from colonnade.data.split import TRAIN, VALIDATION, assign_split, split_from_column
from colonnade.defend.adversary import Learner
from colonnade.defend.base import Defense
from colonnade.defend.layered import Layered
from colonnade.defend.nashcoder import COSTS, NashCoder, head_loss, surrogate_head
from colonnade.errors import ConfigError, DataError
from colonnade.federation.federation import Federation
from colonnade.learn.agreement import Agreement
from colonnade.learn.model import VerticalModel
from colonnade.learn.optimize import Optimizer
from colonnade.learn.part import ANSWER_BATCH, TopPart
from colonnade.learn.shared import HeadCopy, Shared
from colonnade.learn.top import task_loss
from colonnade.nets.weights import initialised
from colonnade.strength import number

JUDGED = 4096
"""At most so many records judge a value; where there are secrets, as many others teach the heads."""
HEAD_STEPS, HEAD_BATCH, HEAD_RATE, HEAD_TRIED_EVERY = 300, 256, 3e-3, 20
"""A head that measures a cost is new and learns for so long (Adam): near its best answer to the uploads."""
RESPONSE_HEAD_STEPS = 30
"""Steps of the party's own heads before each update of a response, if they do not take more anyway."""


def best_response_gaps(
    model: VerticalModel, federation: Federation | None = None, *, steps: int = 50, seed: int = 0
) -> pd.DataFrame:
    """Return what each party with columns would gain from further local updates while everybody else stands still.

    At an equilibrium (Eq. 3) nobody gains. Copies of the party's bottom and defense take the updates, at a rate that
    falls to zero and with heads that are given time to follow; the model stays as it is. Values are taken on training
    records and on validation records, with the same noise before and after, and c from new heads that learn from other
    training records. Only `nashcoder`, alone or as a layer, has a c: elsewhere α is 0, V is −q u, and what else a
    defense pulls at may let the gap be negative.

    A small gap says that this many steps of this optimiser find nothing better; that nothing better exists, it can't
    say. A gap on training records alone is overfitting.

    Args:
        model: trained in this process, or loaded.
        federation: the records it was trained with; None where the model still knows them.
        steps: local updates.
        seed: of batches, noise and heads.

    Returns:
        One row a party: `party`, `alpha`, `q`, then `u`, `c`, `F`, `V`, `V_after` and `gap` = V − V_after, each on
        training records and, where there are any, on validation records as `validation_...`; c is NaN where nothing is
        hidden.
    """
    number("steps", steps, at_least=0, whole=True)
    scene = _scene(model, federation, seed)
    costs = {player.party: scene.costs(player) for player in scene.players}
    uploads = {kind: [player.uploads(positions, seed) for player in scene.players] for kind, positions in scene.sets()}
    rows = []
    for player in scene.players:
        after = scene.respond(player, steps)
        costs_after = scene.costs(after)
        row: dict[str, object] = {"party": player.party, "alpha": player.alpha, "q": player.weight}
        for kind, positions in scene.sets():
            u, c = scene.task_value(uploads[kind], positions), costs[player.party][kind]
            moved = [*uploads[kind]]
            moved[player.place] = after.uploads(positions, seed)
            value = player.value(u, c)
            value_after = player.value(scene.task_value(moved, positions), costs_after[kind])
            common = u - sum(_weighed(other.alpha, costs[other.party][kind]) for other in scene.players)
            found = {"u": u, "c": c, "F": common, "V": value, "V_after": value_after, "gap": value - value_after}
            row |= {f"{kind}{name}": number for name, number in found.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def trajectory(model: VerticalModel) -> pd.DataFrame:
    """Return how values moved, one row an epoch, from what the run logged.

    `u` is minus the training loss, `q_<party>` the weights and `q_distance` how far they moved since the epoch before
    (Euclidean); `privacy_<party>_<secret>` is the loss of the party's own head, high where it knows little, and
    `c_<party>_<secret>` the cost. F is given where all of its terms are known: the cost was logged, or is minus the
    head's loss (`neg_ce`), for every party that hides something, the active one too. Values are means over an epoch's
    batches, in which the model moves on.
    """
    history = model.history
    frame = pd.DataFrame({"epoch": history["epoch"], "u": -history["train_loss"]}).set_index("epoch", drop=False)
    history = history.set_index("epoch")
    weights = history.filter(regex="^weight_").rename(columns=lambda name: name.replace("weight_", "q_", 1))
    frame = frame.join(weights)
    if len(weights.columns):
        frame["q_distance"] = np.sqrt(weights.diff().pow(2).sum(axis=1, skipna=False))
    total = frame["u"].copy()
    for party in model.agreement.parties:
        part = model.parts.get(party)
        if part is None:
            total[:] = math.nan  # what it hides, and what that costs, is known to itself
        elif part.bottom and (hiding := _hiding(part.bottom.defense)):
            total -= _logged_costs(frame, party, hiding, part.result.get("history", []))
    frame["F"] = total
    return frame.reset_index(drop=True)


def _logged_costs(
    frame: pd.DataFrame, party: str, defense: NashCoder, history: Sequence[dict[str, float]]
) -> pd.Series[float]:
    """Put what the party logged into `frame`; return α times the sum of its costs, NaN where they are not known."""
    logged = pd.DataFrame(list(history)).set_index("epoch") if history else pd.DataFrame(index=frame.index)
    heads = logged.filter(regex="^head_loss_")  # beside them stand what other layers and, at the active party, all log
    total = pd.Series(0.0 if len(heads.columns) else math.nan, index=frame.index)
    for column in heads:
        name = str(column).removeprefix("head_loss_")
        loss = frame[f"privacy_{party}_{name}"] = logged[f"head_loss_{name}"]
        if f"cost_{name}" in logged:
            cost = logged[f"cost_{name}"]
        else:
            cost = -loss if defense.cost_name == "neg_ce" else loss * math.nan
        frame[f"c_{party}_{name}"] = cost
        total += cost
    return defense.alpha * total if defense.alpha else pd.Series(0.0, index=frame.index)


@dataclass(frozen=True)
class _Player:
    """A party at the table: its own copies, so that the model stays as it is."""

    party: str
    place: int
    network: nn.Module
    defense: Defense
    features: Tensor
    rows: Positions
    mean: Tensor
    weight: float
    secrets: Sequence[Secret]

    @property
    def alpha(self) -> float:
        hiding = _hiding(self.defense)
        return hiding.alpha if hiding else 0.0

    def value(self, u: float, c: float) -> float:
        """Return V, what the party minimises (Eq. 5)."""
        return _weighed(self.alpha, c) - self.weight * u

    def held(self, positions: Positions) -> tuple[Tensor, Tensor]:
        """Return which of `positions` the party holds, and its rows there."""
        rows = torch.from_numpy(self.rows[positions]).to(self.features.device)
        return rows >= 0, rows[rows >= 0]

    @torch.no_grad()
    def uploads(self, positions: Positions, seed: int) -> Tensor:
        """Return one upload a record, the mean where it has none; always with the same noise for the same seed."""
        self.defense.generator.manual_seed(seed)
        self.network.eval()
        held, rows = self.held(positions)
        filled = self.mean.expand(len(held), *self.mean.shape).clone()
        parts = [self.defense.disguise(x) for x in torch.split(self.features[rows], ANSWER_BATCH)]
        filled[held] = torch.cat([self.defense.protect(x, self.network(x), train=False).float() for x in parts])
        return filled


@dataclass(frozen=True)
class _Scene:
    """Everybody as training left them, and the records to judge by."""

    agreement: Agreement
    top: TopPart
    head: nn.Module
    players: list[_Player]
    targets: Tensor
    train: Positions
    judged: Positions
    taught: Positions
    validation: Positions
    seed: int

    def sets(self) -> list[tuple[str, Positions]]:
        """Return the records that judge, under what stands before the names of their columns."""
        return [("", self.judged), *([("validation_", self.validation)] if len(self.validation) else [])]

    def respond(self, player: _Player, steps: int) -> _Player:
        """Return the player after `steps` local updates of its own kind, all others frozen."""
        network, defense = copy.deepcopy((player.network, player.defense))
        defense.generator.manual_seed(self.seed)
        if hiding := _hiding(defense):
            # Eq. 5 has the best head inside. Who follows one that lags behind often loses against a new one.
            hiding.head_steps = max(hiding.head_steps, RESPONSE_HEAD_STEPS)
        settings, device = self.agreement.task.optimizer, player.features.device
        optimizer = Optimizer(network.parameters(), settings)
        head = HeadCopy(self.top.recipe, player.place, regression=self._regression, device=device)
        for step, positions in enumerate(islice(self._batches(), steps)):
            held, rows = player.held(positions)
            if not len(rows):
                continue
            others = {
                other.place: other.uploads(positions, self.seed + step)
                for other in self.players
                if other.place != player.place
            }
            shared = Shared(self.targets[positions], others, player.mean, self.head.state_dict(), player.weight)
            head.meet(shared, None if held.all() else held)
            network.train()
            defense.turn_to(rows)
            x = defense.disguise(player.features[rows])
            h = network(x)
            upload = defense.rehearse(x, h).float()
            optimizer.zero_grad()
            defense.backward(x, h, upload, head.gradient(upload))
            # A constant rate would end on the noise of the last batches, which could hide a small gain.
            optimizer.step(settings.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps)))
        return replace(player, network=network, defense=defense)

    @property
    def _regression(self) -> bool:
        return self.top.label.kind == "regression"

    def _batches(self) -> Iterator[Positions]:
        for epoch in count():
            yield from epoch_batches(self.train, self.agreement.task.batch_size, self.seed, epoch)

    @torch.no_grad()
    def task_value(self, uploads: Sequence[Tensor], positions: Positions) -> float:
        """Return u: minus the mean loss of the task."""
        parts = zip(*(torch.split(upload, ANSWER_BATCH) for upload in uploads), strict=True)
        outputs = torch.cat([self.head(list(part)) for part in parts])
        return -float(task_loss(outputs, self.targets[positions], self._regression))

    def costs(self, player: _Player) -> dict[str, float]:
        """Return c on every set: the sum over the player's secrets, each judged by a head that is new."""
        hiding = _hiding(player.defense)
        if hiding is None:
            return {kind: math.nan for kind, _ in self.sets()}
        cost, totals = COSTS[hiding.cost_name], {kind: 0.0 for kind, _ in self.sets()}
        taught = player.uploads(self.taught, self.seed)
        for secret in player.secrets:
            known, values = _known(secret, player.rows[self.taught], taught.device)
            head = self._best_head(taught[known], values, secret.classes)
            for kind, positions in self.sets():
                known, values = _known(secret, player.rows[positions], taught.device)
                with torch.no_grad():
                    outputs = head(player.uploads(positions, self.seed)[known], train=False)
                    totals[kind] += float(cost(outputs, values, secret.classes))
        return totals

    def _best_head(self, uploads: Tensor, values: Tensor, classes: int) -> Learner:
        """Return a head taught on three quarters of `uploads`, as it was when it knew most about the last quarter."""
        network = initialised(lambda: surrogate_head(tuple(uploads.shape[1:]), classes or 1), self.seed)
        head, generator = Learner(network, uploads.device, HEAD_RATE), torch.Generator().manual_seed(self.seed)
        tried = len(uploads) // 4
        best, kept = math.inf, head.state_dict()
        for step in range(HEAD_STEPS):
            if step % HEAD_TRIED_EVERY == 0:
                with torch.no_grad():
                    loss = float(head_loss(head(uploads[:tried], train=False), values[:tried], classes).mean())
                if loss < best:
                    best, kept = loss, {name: tensor.clone() for name, tensor in head.state_dict().items()}
            chosen = torch.randint(tried, len(uploads), (HEAD_BATCH,), generator=generator).to(uploads.device)
            head.descend(head_loss(head(uploads[chosen], train=True), values[chosen], classes).mean())
        head.load_state_dict(kept)
        return head


def _hiding(defense: Defense) -> NashCoder | None:
    """Return what hides the party's secrets, alone or as a layer."""
    layers = defense.layers if isinstance(defense, Layered) else [defense]
    return next((layer for layer in layers if isinstance(layer, NashCoder)), None)


def _weighed(alpha: float, cost: float) -> float:
    return alpha * cost if alpha else 0.0


def _known(secret: Secret, rows: Positions, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return at which of `rows` the secret is known, and its values there; a row below zero is no record."""
    values = secret.values[rows]
    known = (rows >= 0) & (values != UNKNOWN if secret.classes else ~np.isnan(values))
    return torch.from_numpy(known).to(device), torch.from_numpy(values[known]).to(device)


def _scene(model: VerticalModel, federation: Federation | None, seed: int) -> _Scene:
    agreement, federation = model.agreement, federation or model.federation
    active = model.parts.get(agreement.active)
    if federation is None or federation.rows is None or active is None or active.top is None:
        remedy = "give the federation it was trained with, aligned; and all parts of the model"
        raise ConfigError("a best response needs everybody's records", where="federation", remedy=remedy)
    rows, device = federation.rows, next(active.top.network.parameters()).device
    split = _split(agreement, federation)
    train, validation = np.flatnonzero(split == TRAIN), np.flatnonzero(split == VALIDATION)
    labels = federation.records[agreement.active].label
    if labels is None:
        raise DataError("holds no label", where=agreement.active, remedy="give the federation it was trained with")
    both = np.concatenate([train, validation])
    known = torch.from_numpy(active.top.label.transform(labels.iloc[rows[agreement.active][both]]))
    targets = torch.zeros(len(split), dtype=known.dtype, device=device)
    targets[torch.from_numpy(both).to(device)] = known.to(device)
    players = [_player(model, federation, active.top, party, train) for party in active.top.means]
    order = np.random.default_rng(seed).permutation(train)
    hiding = any(player.secrets for player in players)
    judged = order[: min(JUDGED, len(order) // 2 if hiding else len(order))]
    return _Scene(
        agreement=agreement,
        top=active.top,
        head=copy.deepcopy(active.top.network).eval().requires_grad_(False),
        players=players,
        targets=targets,
        train=train,
        judged=judged,
        taught=order[len(judged) :][:JUDGED] if hiding else order[:0],
        validation=validation[:JUDGED],
        seed=seed,
    )


def _player(model: VerticalModel, federation: Federation, top: TopPart, party: str, train: Positions) -> _Player:
    part = model.parts[party].bottom
    assert part is not None and federation.rows is not None, "who uploads has a bottom model"
    records, rows, mean = federation.records[party], federation.rows[party], top.means[party]
    network, defense = copy.deepcopy((part.network, part.defense))
    features = torch.from_numpy(part.preparation.transform(records)).to(mean.device)
    secrets: list[Secret] = []
    if defense.needs_secrets and records.secrets is not None:
        trained_on = rows[train]
        secrets = prepare_secrets(records.secrets, trained_on[trained_on >= 0], party)
        defense.confide(secrets)  # a loaded model does not know them
    return _Player(
        party=party,
        place=list(top.means).index(party),
        network=network,
        defense=defense,
        features=features,
        rows=rows,
        mean=mean,
        weight=_weight(model, party),
        secrets=secrets,
    )


def _weight(model: VerticalModel, party: str) -> float:
    """Return q of the epoch whose networks the model has: the best one where training stopped for want of a better."""
    history, name = model.history, f"weight_{party}"
    if name not in history:
        return 1.0
    kept_best = model.agreement.task.patience is not None
    epoch = model.parts[model.agreement.active].result["best_epoch"] if kept_best else -1
    return float(history[name].iloc[epoch])


def _split(agreement: Agreement, federation: Federation) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the run's own split of its records, by the same rule."""
    assert federation.rows is not None
    rows, settings = federation.rows[agreement.active], agreement.task.split
    if federation.split is not None:
        return split_from_column(federation.split.iloc[rows], validation=settings.validation, seed=agreement.seed)
    ids = federation.records[agreement.active].ids[rows]
    return assign_split(ids, settings.train, settings.validation, settings.test, agreement.seed)
