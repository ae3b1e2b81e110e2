"""UnSplit on many pictures at once, beside one picture after the other."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.bench.images.matrix import device_here, introduce
from colonnade.bench.images.sets import pictures
from colonnade.bench.images.setting import CUT, SIZES, Choice, attacks_of, task_of
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.progress import Progress

if TYPE_CHECKING:  # listing benches loads no torch
    from colonnade.audit.stage import Stage

DATASET = "cifar10"
SINGLE = {"smoke": 2, "small": 5, "medium": 5, "default": 1, "paper": 3}
"""Pictures that are searched for one at a time; what all would take is extrapolated from these."""
AT_ONCE = 1000
"""Pictures that are searched for at once, however many others attack under a preset; a smoke run has its few."""


@dataclass(frozen=True)
class Search:
    """What one call of the attack took and found.

    Attributes:
        seconds: of the call, on both halves of all its pictures.
        mse: mean squared error of whole pictures.
        mean_picture_mse: that of always guessing the mean auxiliary picture, on the same ones.
    """

    seconds: float
    mse: float
    mean_picture_mse: float


@BENCHES.register("causshield-unsplit-speed")
@also_smaller
def unsplit_speed(preset: str, progress: Progress) -> list[Row]:
    """UnSplit on a thousand CIFAR-10 pictures at once: pictures a second, beside one picture at a time."""
    single = SINGLE[preset]
    introduce(DATASET, preset, progress)
    progress.message(
        f"one at a time: {single} pictures were searched for, seconds of all are extrapolated in proportion; same "
        "undefended victim, same schedule, same call; a search of either kind ends early when it gains nothing"
    )
    progress.start(3, "causshield-unsplit-speed")
    stage = _victim(preset)
    progress.advance(1)
    (attack,) = attacks_of(["unsplit"], preset)
    everything = len(stage.targets)
    at_once = search(stage, attack, everything)
    progress.advance(2)
    one_by_one = search(stage, {**attack, "images_at_once": 1}, single)
    progress.advance(3)
    rows = [_row("all at once", at_once, everything, everything), _row("one at a time", one_by_one, everything, single)]
    slow = rows[1]["seconds"]
    return [
        {**row, "times_as_fast": round(slow / row["seconds"], 2), "attack_settings": json.dumps(dict(attack))}
        for row in rows
    ]


def search(stage: Stage, attack: Choice, count: int) -> Search:
    """Let UnSplit search for the first `count` targets, and time the call alone."""
    from colonnade.attack.evidence import Evidence, Knowledge
    from colonnade.audit.attacks import attack_afterwards, bottom_of, chosen_attacks
    from colonnade.audit.truth import natural, side_by_side
    from colonnade.measure.reconstruct import squared_error

    (made,), device = chosen_attacks(attack), stage.settings.device
    evidence = {}
    for party in stage.truths:
        held = stage.evidence(party)
        evidence[party] = Evidence(held.input_shape, {**held.held, Knowledge.UPLOADS: held.uploads[:count]})
    started = time.perf_counter()
    # Guesses come back to the processor, so that an accelerator has done its work when the clock is read.
    found = attack_afterwards(made, evidence, stage.seed, device)
    seconds = time.perf_counter() - started
    guesses = {party: natural(bottom_of(stage.model, party).preparation, one.numpy()) for party, one in found.items()}
    (truth,) = stage.whole.values()
    true = truth.records[:count]
    errors = (squared_error(guess, true).mean() for guess in (side_by_side(guesses), truth.blind))
    return Search(seconds, *map(float, errors))


def _victim(preset: str) -> Stage:
    """Train without a defense, and divide what nobody trained on."""
    from colonnade.audit.held_out import held_out_of
    from colonnade.audit.settings import Settings
    from colonnade.audit.stage import Stage
    from colonnade.learn.train import train

    size, device = SIZES[preset], device_here()
    federation = pictures(DATASET, size.private, size.held_out)
    task = task_of(DATASET, preset)
    model = train(federation, task=task, seed=0, device=device, progress=False)
    targets = size.targets if preset == "smoke" else AT_ONCE
    settings = Settings(targets=targets, dataset=DATASET, device=device)
    return Stage.of(model, held_out_of(model, federation, None), settings, seed=0)


def _row(way: str, found: Search, wanted: int, searched: int) -> Row:
    seconds = found.seconds * wanted / searched
    return {
        "dataset": DATASET,
        "cut": CUT,
        "way": way,
        "pictures": wanted,
        "extrapolated_from": None if searched == wanted else searched,
        "seconds": round(seconds, 4),
        "pictures_per_second": round(wanted / seconds, 4),
        "mse": round(found.mse, 4),
        "mean_picture_mse": round(found.mean_picture_mse, 4),
    }
