"""One defense at one strength with one seed: trained once, watched, and read by every attack; kept when it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.bench.images.matrix import device_here
from colonnade.bench.kept import code, file_name
from colonnade.bench.keystone.setting import Ground

DECIDING = (
    *("defend", "learn", "nets"),
    *(f"attack/{name}.py" for name in ("decoder", "matcher", "ridge", "witness")),
    *(f"audit/{name}.py" for name in ("evidence", "score", "stage", "truth")),
    *(f"bench/keystone/{name}.py" for name in ("matching", "reading", "victim")),
)


@dataclass(frozen=True)
class Victim:
    """A training run and what is read in its uploads.

    Attributes:
        ground: where.
        defense: of all passive parties, as pairs of a name and a value.
        seed: of the run, of who is attacked and of the attacks.
        preset: how much.
    """

    ground: Ground
    defense: tuple[tuple[str, Any], ...]
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        chosen = " ".join(str(value) for _, value in self.defense)
        return f"{self.ground.dataset} {self.ground.cut or ''} {chosen} {self.seed}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        deciding = [self, self.ground.size(self.preset), self.ground.learning(self.preset), *self.ground.fingerprint]
        return file_name(self.title, deciding, code(*DECIDING))

    def run(self) -> dict[str, Any]:
        """Train, attack, and return a row for each attack and party, and how the task was scored."""
        from colonnade.bench.keystone.reading import read

        device = device_of(self.ground)
        federation, task = self.ground.laid_out(self.preset)
        found = read(
            federation,
            task,
            dict(self.defense),
            size=self.ground.size(self.preset),
            dataset=self.ground.dataset,
            seed=self.seed,
            device=device,
        )
        return {"score": found.scores[self.ground.metric], "rows": found.rows}


def device_of(ground: Ground) -> str:
    """Return where networks live: perceptrons are as quick on a processor, and many run at once there."""
    return device_here() if ground.cut is not None else "cpu"
