"""Fig. 1: what first-order theory says could be read from uploads, what is read, and how much of a class they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from colonnade.audit.settings import Settings
from colonnade.bench.images.matrix import defense_keys, device_here, introduce
from colonnade.bench.images.proxy import CAUSAL_PROXY_NOTE, proxy_cosines
from colonnade.bench.images.published import CAUSAL_PROXY, INVERSION_RISK, URVFL, entry
from colonnade.bench.images.sets import fingerprint, pictures
from colonnade.bench.images.setting import REDUCED, SEEDS, SIZES, UNDEFENDED, Choice, attacks_of, defenses_of, task_of
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.checkpoint import under
from colonnade.measure.interval import interval
from colonnade.progress import Progress

if TYPE_CHECKING:  # listing benches loads no torch
    from torch import Tensor

    from colonnade.audit.held_out import HeldOut
    from colonnade.learn.model import VerticalModel
    from colonnade.learn.part import BottomPart

    BatchMap = Callable[[Tensor], Tensor]

DATASET = "cifar10"
DEFENSES: tuple[Choice, ...] = (
    UNDEFENDED,
    {"name": "prune", "rate": 0.99},
    {"name": "ressfl", "weight": 0.3},
    {"name": "invl_dnp", "noise": 0.12},
    {"name": "invl_enp", "noise": 0.12},
    {"name": "causshield"},
    {"name": "bottleneck"},
)
ATTACKS = ("decoder-strong", "ridge")
_LOOKED_AT = {"smoke": (4, 8), "small": (64, 128), "medium": (64, 256), "default": (256, 256), "paper": (512, 256)}
"""Records whose Jacobian is looked at, and how many of its directions."""
_MEASURES = (
    "inversion_risk", "decoder_mse", "ridge_mse", "mean_picture_mse", "proxy_cosine", "other_cosine", "accuracy",
)  # fmt: skip
_RISK = (
    "inversion_risk is InvRE by our own definition (the original's text could not be obtained): compare its rows with "
    "each other, not with the published ones"
)


@dataclass(frozen=True)
class Victim:
    """One model under one defense: trained, attacked and looked through.

    Attributes:
        defense: of both passive parties.
        seed: of training, attacks and the choice of records.
        preset: how long and how many.
    """

    defense: tuple[tuple[str, Any], ...]
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        return " ".join(["risk", *(str(value) for _, value in self.defense), str(self.seed)])

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        deciding = code("attack", "audit", "bench/images", "defend", "learn", "measure", "nets")
        chosen = [SIZES[self.preset], _LOOKED_AT[self.preset], fingerprint(DATASET)]
        return file_name(self.title, [self, *chosen], deciding)

    def run(self) -> dict[str, float | None]:
        """Train, attack, and return the measures; None where one could not be taken."""
        from colonnade.audit.audit import audit
        from colonnade.audit.held_out import divide, held_out_of
        from colonnade.learn.train import train

        size, device = SIZES[self.preset], device_here()
        federation = pictures(DATASET, size.private, size.held_out)
        task = task_of(DATASET, self.preset)
        model = train(federation, dict(self.defense), task=task, seed=self.seed, device=device, progress=False)
        how = Settings(targets=size.targets, device=device)
        # Under `small` a plain decoder: a deep one takes a processor ten times as long as its victim.
        attacks = attacks_of(("decoder", "ridge") if self.preset in REDUCED else ATTACKS, self.preset)
        found = audit(model, attacks, federation=federation, seeds=[self.seed], progress=False, **asdict(how)).frame
        errors = found[found["party"] == "all"].set_index("attack")["mse"]
        # The records that the attacks had, divided as they were.
        known, wanted = divide(held_out_of(model, federation, None), how.auxiliary, how.targets, self.seed)
        own, other = proxy_cosines(model, known, wanted)
        return {
            "inversion_risk": mean_risk(model, known, wanted, *_LOOKED_AT[self.preset], seed=self.seed),
            "decoder_mse": float(errors["decoder"]),
            "ridge_mse": float(errors["ridge"]),
            "mean_picture_mse": float(errors["mean record"]),
            "proxy_cosine": own,
            "other_cosine": other,
            "accuracy": model.scores["accuracy"],
        }


@BENCHES.register("causshield-fig1")
@also_smaller
def figure1(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 1: InvRE beside what decoders really read from uploads, and the uploads' cosine to a causal proxy."""
    introduce(DATASET, preset, progress)
    for note in (_RISK, CAUSAL_PROXY_NOTE):
        progress.message(note)
    defenses = DEFENSES[:2] if preset == "smoke" else defenses_of(DEFENSES, preset)
    work = [Victim(tuple(one.items()), seed, preset) for one in defenses for seed in SEEDS[preset]]
    progress.start(len(work), "causshield-fig1")
    found: dict[int, Any] = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device_here()), start=1):
        found[place] = result
        progress.advance(done)
    groups: dict[tuple[tuple[str, Any], ...], list[Any]] = {}
    for place in sorted(place for place, result in found.items() if result is not None):
        groups.setdefault(work[place].defense, []).append(found[place])
    rows = [_row(dict(defense), group) for defense, group in groups.items()]
    _say_how_they_agree(rows, progress)
    return rows


def mean_risk(model: VerticalModel, known: HeldOut, wanted: HeldOut, records: int, rank: int, *, seed: int) -> float:
    """Return the mean InvRE of the first `records` of `wanted`, over the parties; `known` tells the mean record."""
    from colonnade.audit.attacks import bottom_of
    from colonnade.audit.evidence import device_of, draw_noise_from, prepared
    from colonnade.measure.risk import inversion_risk

    found = []
    for party in wanted.records:
        bottom, device = bottom_of(model, party), device_of(model.parts[party])
        draw_noise_from(party, bottom, seed)
        centre = prepared(bottom, known.records[party]).mean(0).to(device)
        looked_at = prepared(bottom, wanted.records[party])[:records].to(device)
        risk = inversion_risk(noiseless(bottom), looked_at, centre=centre, noise=noise_of(bottom), rank=rank, seed=seed)
        found.append(float(risk.risk.mean()))
    return fmean(found)


def noiseless(bottom: BottomPart) -> BatchMap:
    """Return the way from records to uploads, noise left out, so that it can be differentiated.

    What CausShield deploys is the bottom with other weights; its own method would cut the gradient off.
    """
    from torch.func import functional_call

    network, defense = bottom.network.eval(), bottom.defense
    weights = {name: tensor.detach() for name, tensor in network.state_dict().items()}
    if deployed := under("deployed", defense.state_dict()):
        weights = deployed

    def representation(x: Tensor) -> Tensor:
        output: Tensor = functional_call(network, weights, (x,))
        return output

    def upload(x: Tensor) -> Tensor:
        return defense.protect(x, representation(x), train=False)

    return representation if deployed or _draws(bottom) else upload


def noise_of(bottom: BottomPart) -> float | BatchMap:
    """Return what draws the noise in uploads, 0 where there is none: what a defense adds, drawn anew each time."""
    import torch

    if not _draws(bottom):
        return 0.0
    network, defense = bottom.network.eval(), bottom.defense

    def noise(x: Tensor) -> Tensor:
        with torch.no_grad():
            h: Tensor = network(x)
            return defense.protect(x, h, train=False) - h

    return noise


def _draws(bottom: BottomPart) -> bool:
    """Return whether an upload is another one each time."""
    import torch

    with torch.no_grad():
        x = torch.zeros(2, *bottom.recipe["input_shape"], device=next(bottom.network.parameters()).device)
        h = bottom.network.eval()(x)
        first, second = (bottom.defense.protect(x, h, train=False) for _ in range(2))
    return not torch.equal(first, second)


def _row(defense: Choice, group: Sequence[Mapping[str, float | None]]) -> Row:
    from colonnade.audit.rows import settings_of
    from colonnade.learn.train import named_defense

    row: Row = {**defense_keys(DATASET, defense), "seeds": len(group)}
    name_of, strength = row["defense"], row["strength"]
    for name in _MEASURES:
        values = [value for one in group if (value := one[name]) is not None]
        half = interval(values)
        row[name] = round(fmean(values), 4) if values else None
        row[f"{name}_ci"] = None if half is None else round(half, 4)
    return {
        **row,
        "published_inversion_risk": INVERSION_RISK.get(name_of),
        "published_urvfl_mse": entry(URVFL[DATASET], name_of, strength).mse,
        "published_proxy_cosine": CAUSAL_PROXY.get(name_of),
        "defense_settings": settings_of(named_defense(defense).describe()),
    }


def _say_how_they_agree(rows: Sequence[Row], progress: Progress) -> None:
    """Tell whether a lower InvRE goes with a greater error, over the defenses."""
    if len(rows) < 3:  # two are in order or not: that is no correlation
        return
    from scipy.stats import spearmanr

    for error in ("decoder_mse", "ridge_mse"):
        found = spearmanr([row["inversion_risk"] for row in rows], [row[error] for row in rows]).statistic
        progress.message(f"rank correlation of inversion_risk and {error} over {len(rows)} defenses: {found:.2f}")
