"""One run of an equilibrium bench: train, let fresh attackers at the uploads, and measure what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from colonnade.bench.equilibrium.attackers import Told, with_ceiling, without_ceiling
from colonnade.bench.equilibrium.methods import NONE, Method
from colonnade.bench.equilibrium.sets import Case, Scene, scene
from colonnade.bench.equilibrium.setting import SIZES, task_of
from colonnade.bench.images.matrix import device_here
from colonnade.bench.kept import code, file_name
from colonnade.progress import Progress

if TYPE_CHECKING:  # listing benches loads no torch
    from colonnade.learn.model import VerticalModel

_DECIDING = (
    *("attack/attribute", "audit", "data", "defend", "learn", "measure/shapley.py", "nets"),
    *(f"bench/equilibrium/{name}.py" for name in ("attackers", "play", "sets", "setting")),
)


@dataclass(frozen=True)
class Play:
    """One method at one strength on one federation with one seed.

    Attributes:
        case: the federation.
        method: what protects it.
        strength: of the protection; None where it has no knob.
        seed: of the run and of the attackers.
        preset: how much is trained and attacked.
        local_updates: steps between two exchanges.
        watched: whether records are scored after every epoch.
        every_client: whether attackers try each client's uploads too, and not only all together.
        attacked: whether there are attackers at all.
    """

    case: Case
    method: Method
    strength: float | None
    seed: int
    preset: str
    local_updates: int = 1
    watched: bool = False
    every_client: bool = False
    attacked: bool = True

    @property
    def title(self) -> str:
        """What people call it."""
        strength = "" if self.strength is None else f" {self.strength:g}"
        chosen = f"{self.method.name} {self.method.weights}{strength}"
        return f"{self.case.dataset} {self.case.parties} {chosen} {self.seed}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the run."""
        return file_name(self.title, [self, SIZES[self.preset][self.case.kind]], code(*_DECIDING))

    def run(self) -> dict[str, Any]:
        """Train, attack, and return what was found."""
        size = SIZES[self.preset][self.case.kind]
        staged, clock = scene(self.case, size.train, size.test), Clock()
        model = self.trained(staged, clock)
        result = model.parts[model.agreement.active].result
        return {
            "target": model.scores[staged.metric],
            "trivial": trivial(model, staged),
            "target_f1": target_f1(model),
            "metric": staged.metric,
            "leaks": self._leaks(model, staged) if self.attacked else [],
            "seconds": clock.seconds,
            "bytes": clock.sent_bytes,
            "steps": clock.steps,
            "history": result["history"],
        }

    def trained(self, staged: Scene, clock: Clock) -> VerticalModel:
        """Train, and let `clock` see every step."""
        from colonnade.learn.train import train

        task = task_of(
            staged,
            SIZES[self.preset][self.case.kind],
            self.preset,
            self.method.weights,
            local_updates=self.local_updates,
            watched=self.watched,
        )
        chosen, device = self.method.choice(self.strength), _device(staged)
        return train(staged.federation, chosen, task=task, seed=self.seed, device=device, progress=clock)

    def _leaks(self, model: VerticalModel, staged: Scene) -> list[Told]:
        hidden = staged.hidden
        if not self.every_client and len({tuple(frame.columns) for frame in hidden.values()}) == 1:
            hidden = dict([next(iter(hidden.items()))])  # one client's word is enough to know the secret of all
        attack = with_ceiling if self.method == NONE else without_ceiling
        return attack(model, hidden, SIZES[self.preset][self.case.kind].attackers, self.seed, _device(staged))


class Clock(Progress):
    """Sees when each step ended."""

    def __init__(self) -> None:
        self._epochs: list[list[float]] = [[]]
        self.sent_bytes = 0

    def advance(self, step: int, **values: Any) -> None:
        """Note the time; what stands between two epochs is validation, and no step."""
        if "sent_bytes" in values:
            self._epochs[-1].append(time.perf_counter())
            self.sent_bytes = values["sent_bytes"]
        else:
            self._epochs.append([])

    @property
    def steps(self) -> int:
        """How many steps there were: as many exchanges."""
        return sum(map(len, self._epochs))

    @property
    def seconds(self) -> float | None:
        """Return what a step took: the mean of an epoch, in the median over epochs; None where an epoch has one."""
        means = [(ends[-1] - ends[0]) / (len(ends) - 1) for ends in self._epochs if len(ends) > 1]
        return median(means) if means else None


def trivial(model: VerticalModel, staged: Scene) -> float:
    """Return the target score of one who always guesses the commonest label of the test records."""
    from colonnade.audit.held_out import held_out_of

    if staged.metric == "auc":
        return 0.5
    labels = held_out_of(model, None, None).labels
    assert labels is not None
    return float(labels.bincount().max() / len(labels))


def target_f1(model: VerticalModel) -> float:
    """Return the published score: F1 of the rarer of two classes, weighted F1 of more.

    Two classes: as many records count as the rarer one as truly are, those for which the model finds it likeliest. With
    the usual threshold a model of a rare class would never name it.
    """
    import numpy as np
    from sklearn.metrics import f1_score

    from colonnade.audit.held_out import held_out_of

    held = held_out_of(model, None, None)
    assert held.labels is not None
    truth = held.labels.numpy()
    shares = model.predict_proba({**held.records, **held.own}).to_numpy()
    if shares.shape[1] > 2:
        return float(f1_score(truth, shares.argmax(1), average="weighted"))
    rare = int(np.bincount(truth, minlength=2).argmin())
    named = np.zeros(len(truth), dtype=bool)
    named[np.argsort(-shares[:, rare], kind="stable")[: (truth == rare).sum()]] = True
    return float(f1_score(truth == rare, named))


def _device(staged: Scene) -> str:
    """Perceptrons are as quick on a processor, and many run at once there."""
    return device_here() if staged.pictures else "cpu"
