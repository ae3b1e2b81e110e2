"""What all insiders share: a shadow of each victim's bottom, and one decoder for all victims together."""

from __future__ import annotations

import copy
import inspect
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.evidence import Knowledge, Operator
from colonnade.attack.insider import Insider
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.learn.augment import Shifts
from colonnade.nets.adversarial import Pilot
from colonnade.nets.decoder import build_decoder
from colonnade.nets.device import on_device, precision
from colonnade.nets.shapes import Shape
from colonnade.strength import number, one_of, yes_or_no

FEWEST_RECORDS = 20
NARROWEST = 4
LEAST = {int: 1, float: 1e-9}
"""What an argument is at least: an attack that can't learn finds nothing, and a defense would get the credit."""
CHUNK = 1024


class Known(NamedTuple):
    """Auxiliary records of whole people, and each victim's part of them as its network would see it."""

    whole: Tensor
    shown: Sequence[Tensor]


class SideBySide:
    """Lays what belongs to several parties side by side, and cuts it apart again.

    Strips of an image, and feature maps of one height, lie along the width; anything else is flattened first.

    >>> strips = SideBySide([(3, 32, 16), (3, 32, 10)])
    >>> strips.shape, [tuple(part.shape) for part in strips.cut(torch.zeros(5, 3, 32, 26))]
    ((3, 32, 26), [(5, 3, 32, 16), (5, 3, 32, 10)])
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.by_width = all(len(shape) == 3 for shape in self.shapes) and len({s[:2] for s in self.shapes}) == 1
        self._lengths = [shape[2] if self.by_width else math.prod(shape) for shape in self.shapes]
        total = sum(self._lengths)
        self.shape: Shape = (*self.shapes[0][:2], total) if self.by_width else (total,)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Return one tensor of all parties' parts."""
        return torch.cat(list(parts), dim=-1) if self.by_width else torch.cat([p.flatten(1) for p in parts], dim=1)

    def cut(self, whole: Tensor) -> list[Tensor]:
        """Return each party's part of what `join` made."""
        parts = torch.split(whole, self._lengths, dim=-1)
        return [part.reshape(len(part), *shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Shadowing(Insider):
    """An insider that imitates its victims: what it can't see of them, it learns from shadows of its own.

    An attack of this kind writes `set_up` (its own networks), `see` (one batch) and, if it must, `finish`.
    Shadows are made from the victims' architecture where that is known.

    Attributes:
        victims: the attacked parties, in the order in which the top model joins them.
        shadows: one network per victim, from its records to its uploads.
        decoder: from all victims' uploads, side by side, to the whole record less the mean record.
        upload_layout: how the victims' uploads lie side by side.
        record_layout: how the victims' records lie side by side.
        auxiliary: all auxiliary records, whole, on the device.
        auxiliary_labels: their classes, where the attack knows labels.
        top: the top model that is being trained.
        outputs: how many classes it tells apart.
        decoder_width: channels or hidden units of the decoder.
    """

    needs_top: ClassVar[bool] = False
    """Whether shadows' uploads go through the top model: then every party that uploads must have one."""
    may_be_nothing: ClassVar[frozenset[str]] = frozenset()
    """Arguments of presets that may be 0: without these steps it is still an attack."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    """What arguments left at None stand for: `smoke` shows that it runs, `default` is ours, `paper` the published."""

    decoder_width: int

    def __init__(
        self, preset: str, given: Mapping[str, float | None], *, adaptive: bool, mixed: bool, batch_size: int = 128
    ) -> None:
        """Take the arguments that all insiders share.

        Args:
            preset: the row of `presets` that fills what is not given.
            given: arguments that a preset can fill, by name; each becomes an attribute.
            adaptive: pass the shadows' outputs through the public operator of the victims' defense, and disguise what
                they are shown as it does.
            mixed: compute in bfloat16 where the device gains from it.
            batch_size: auxiliary records per step outside the run's own batches.
        """
        super().__init__()
        self.preset = one_of(f"{self.name}.preset", preset, self.presets)
        self.adaptive = yes_or_no(f"{self.name}.adaptive", adaptive)
        self.mixed = yes_or_no(f"{self.name}.mixed", mixed)
        for argument, value in given.items():
            usual = self.presets[preset][argument]
            chosen = usual if value is None else value
            least, whole = self._least(argument, usual), isinstance(usual, int)
            setattr(self, argument, number(f"{self.name}.{argument}", chosen, at_least=least, whole=whole))
        self.batch_size = int(number(f"{self.name}.batch_size", batch_size, at_least=2, whole=True))
        if self.adaptive:
            self.strength = "adaptive"  # type: ignore[misc]
            self.knowledge = self.knowledge | {Knowledge.DEFENSE_OPERATOR}  # type: ignore[misc]

    # -- the stops of the run ---------------------------------------------------------------------------------------

    def begin(self, top: nn.Module, shapes: Mapping[str, tuple[int, ...]], outputs: int) -> None:
        """Take the auxiliary records to the device, and build shadows and decoder for uploads of these shapes."""
        if not hasattr(self, "evidence"):
            raise ConfigError("it knows nothing yet", where=f"attack '{self.name}'", remedy="call meet before training")
        self.top, self.outputs = top, outputs
        self.victims = [party for party in shapes if party in self.evidence]
        self._check_victims(shapes)
        self.upload_layout = SideBySide([shapes[victim] for victim in self.victims])
        self.record_layout = SideBySide([self.evidence[victim].input_shape for victim in self.victims])
        self._take_auxiliary()
        self._moves = [self._moves_of(victim) for victim in self.victims]
        shadows = [self.make_shadow(victim, shapes[victim], self.new_seed()) for victim in self.victims]
        self.shadows = on_device(nn.ModuleList(shadows), self.device)
        self._operators = self._operators_behind(self.shadows) if self.adaptive else []
        decoder = self.make_decoder(self.upload_layout.shape, self.record_layout.shape, self.new_seed())
        self.decoder = on_device(decoder, self.device)
        self._calibrated = False
        self.set_up()

    def watch(
        self, step: int, uploads: Mapping[str, Tensor], labels: Tensor, honest: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """See one batch; return the honest gradients unless `see` has others."""
        if len(labels) < 2:  # batch normalisation can't take a single record
            return honest
        seen = [uploads[victim].detach().to(self.device) for victim in self.victims]
        for victim, upload in zip(self.victims, seen, strict=True):
            if len(upload) != len(labels):
                raise ConfigError(
                    f"holds {len(upload)} of {len(labels)} records of a batch, and this attack needs them all",
                    where=f"{victim}, attack '{self.name}'",
                    remedy="align with missing='drop'",
                )
        if not self._calibrated:
            self.calibrate(seen)
        answers = self.see(step, seen, labels.to(self.device))
        if answers is None:
            return honest
        sent = zip(self.victims, answers, strict=True)
        return {**honest, **{victim: answer.to(honest[victim]) for victim, answer in sent}}

    @torch.no_grad()
    def reconstruct_all(self, uploads: Mapping[str, Tensor], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return the decoder's guesses, within the range of the auxiliary records, on the CPU."""
        if not hasattr(self, "decoder"):
            remedy = "train with curious= this attack first"
            raise ConfigError("it has seen no training", where=f"attack '{self.name}'", remedy=remedy)
        guesses = []
        with in_prediction(self.decoder):
            for start in range(0, len(uploads[self.victims[0]]), CHUNK):
                rows = slice(start, start + CHUNK)
                known = None if labels is None else labels[rows].long().to(self.device)
                seen = [uploads[victim][rows].to(self.device).float() for victim in self.victims]
                guesses.append(self.guess(seen, known).cpu())
        parts = zip(self.victims, self.strips(torch.cat(guesses)), self._ranges, strict=True)
        return {victim: part.clamp(*ends) for victim, part, ends in parts}

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and every argument."""
        arguments = inspect.signature(type(self)).parameters
        return {**super().describe(), **{argument: getattr(self, argument) for argument in arguments}}

    # -- what an attack writes ----------------------------------------------------------------------------------------

    @abstractmethod
    def set_up(self) -> None:
        """Build the attack's further networks and optimisers; learn what can be learned before the run."""

    @abstractmethod
    def see(self, step: int, uploads: list[Tensor], labels: Tensor) -> list[Tensor] | None:
        """Learn from one batch; return the gradient to send to each victim, or None to send the honest ones."""

    def make_shadow(self, victim: str, upload_shape: Shape, seed: int) -> nn.Module:
        """Return an untrained shadow of the victim's bottom."""
        return self.evidence[victim].bottom_factory(seed)

    def make_decoder(self, upload_shape: Shape, record_shape: Shape, seed: int) -> nn.Module:
        """Return an untrained decoder from all uploads to the whole record."""
        return build_decoder(upload_shape, record_shape, width=self.decoder_width, seed=seed)

    def guess(self, uploads: list[Tensor], labels: Tensor | None) -> Tensor:
        """Return the whole records that the uploads come from."""
        return self.decode(uploads)

    # -- what attacks are built from ----------------------------------------------------------------------------------

    def new_seed(self) -> int:
        """Return a seed for one network."""
        return int(torch.randint(2**62, (), generator=self.generator))

    def draw(self, count: int) -> Tensor:
        """Return the rows of so many random auxiliary records."""
        return torch.randint(len(self.auxiliary), (count,), generator=self.generator).to(self.device)

    def known(self, rows: Tensor) -> Known:
        """Return these auxiliary records as their owners would train on them.

        Where a federation moves pictures, each party moves its strips by draws of its own. A discriminator that
        compared moved records with unmoved ones would learn to tell the moves. An adaptive attack disguises them too.
        """
        return self._as_trained_on(self.strips(self.auxiliary[rows]), self._moves)

    def strips(self, whole: Tensor) -> list[Tensor]:
        """Return each victim's part of whole records."""
        return self.record_layout.cut(whole)

    def imitate(self, strips: Sequence[Tensor]) -> list[Tensor]:
        """Return what the shadows make of each victim's records, behind its operator if the attack is adaptive."""
        with self.precision():
            made = [shadow(strip) for shadow, strip in zip(self.shadows, strips, strict=True)]
        made = [upload.float() for upload in made]
        if not self.adaptive:
            return made
        return [operate(*seen) for operate, *seen in zip(self._operators, strips, made, strict=True)]

    def calibrate(self, uploads: list[Tensor]) -> None:
        """Let pilots take after the first uploads that are seen; shadows of a known architecture need no such help."""
        strips = self.known(self.draw(self.batch_size)).shown
        for shadow, upload, strip in zip(self.shadows, uploads, strips, strict=True):
            if isinstance(shadow, Pilot):
                shadow.take_after(upload, strip)
        self._calibrated = True

    def decode(self, uploads: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Return the decoder's guess of the whole records; `labels` are for a decoder that is told the class."""
        joined = self.upload_layout.join(uploads)
        with self.precision():
            difference = self.decoder(joined) if labels is None else self.decoder(joined, labels)
        guess: Tensor = self._mean + difference.float()
        return guess

    def ask_top(self, uploads: list[Tensor]) -> Tensor:
        """Return what the top model says to uploads, as it would in prediction: watching must not change it.

        In training mode its batch normalisation would remember the shadows' uploads, and the run would no longer be
        the one that is watched.
        """
        place = next(self.top.parameters()).device
        with in_prediction(self.top), self.precision():
            outputs = self.top([upload.to(place) for upload in uploads])
        answer: Tensor = outputs.float().to(self.device)
        return answer

    def learn_to_decode(self, epochs: int, optimizer: torch.optim.Optimizer, *, augment: bool = False) -> None:
        """Pass `epochs` times over the auxiliary records; keep the shadows and the decoder of the best epoch.

        The best is the one that guesses held-back records best. What `optimizer` holds moves, the rest stays.
        """
        learners = nn.ModuleList([self.shadows, self.decoder])
        order = torch.randperm(len(self.auxiliary), generator=self.generator)
        held_back, train = (rows.to(self.device) for rows in order.tensor_split([max(len(order) // 10, 1)]))
        best_error, best = math.inf, copy.deepcopy(learners.state_dict())
        for _ in range(epochs):
            shuffled = train[torch.randperm(len(train), generator=self.generator).to(self.device)]
            for rows in torch.split(shuffled, self.batch_size):
                if len(rows) > 1:  # batch normalisation can't take a single record
                    known = self.augmented(self.auxiliary[rows]) if augment else self.known(rows)
                    step_down(optimizer, self.decoding_error(known))
            error = self._held_back_error(learners, held_back)
            if error < best_error:
                best_error, best = error, copy.deepcopy(learners.state_dict())
        learners.load_state_dict(best)

    def decoding_error(self, known: Known) -> Tensor:
        """Return the mean squared error of guessing auxiliary records from their shadows' uploads."""
        return functional.mse_loss(self.decode(self.imitate(known.shown)), known.whole)

    def augmented(self, whole: Tensor) -> Known:
        """Return whole images shifted by up to an eighth of their width and half of them mirrored, drawn afresh."""
        if len(self.record_layout.shape) != 3:
            raise ConfigError("only images can be augmented", where=f"attack '{self.name}'", remedy="augment=False")
        count, (_, height, width) = len(whole), self.record_layout.shape
        border = width // 8
        shifts = torch.randint(2 * border + 1, (2, count), generator=self.generator).to(self.device)
        mirrored = (torch.rand((count, 1, 1, 1), generator=self.generator) < 0.5).to(self.device)
        padded = functional.pad(whole, [border] * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        shifted = windows[torch.arange(count, device=self.device), :, shifts[0], shifts[1]]
        return self._as_trained_on(self.strips(torch.where(mirrored, shifted.flip(-1), shifted)))

    def adam(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
        """Return an optimiser for some of the attack's networks."""
        return torch.optim.Adam(list(parameters), lr=learning_rate, fused=True)

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context to compute networks in."""
        return precision(self.device, self.mixed)

    # -- beginnings -----------------------------------------------------------------------------------------------

    def _check_victims(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for party in self.evidence:
            if party not in shapes:
                remedy = nearest(party, shapes)
                raise ConfigError(f"no party '{party}' uploads anything", where=f"attack '{self.name}'", remedy=remedy)
        missing = [party for party in shapes if party not in self.evidence]
        if not self.victims or (self.needs_top and missing):
            remedy = "give evidence about every party that uploads"
            raise ConfigError(f"nothing is known of '{missing[0]}'", where=f"attack '{self.name}'", remedy=remedy)
        if Knowledge.AUXILIARY_LABELS in self.knowledge and self.outputs < 2:
            remedy = "use it on a classification, or choose fsha"
            raise ConfigError(
                "it needs classes, and the label is a quantity", where=f"attack '{self.name}'", remedy=remedy
            )

    def _take_auxiliary(self) -> None:
        given = [self.evidence[victim].auxiliary_records.float() for victim in self.victims]
        counts = {len(records) for records in given}
        if Knowledge.AUXILIARY_LABELS in self.knowledge:
            self.auxiliary_labels = self.evidence[self.victims[0]].auxiliary_labels.long().to(self.device)
            counts.add(len(self.auxiliary_labels))
        if len(counts) > 1 or min(counts) < FEWEST_RECORDS:
            raise DataError(
                f"auxiliary records and labels of lengths {sorted(counts)} can't train shadows",
                where=f"attack '{self.name}'",
                remedy=f"give the same people's records of all victims, at least {FEWEST_RECORDS}",
            )
        self.auxiliary = self.record_layout.join([records.to(self.device) for records in given])
        self._mean = self.auxiliary.mean(0)
        self._ranges = [(records.min().item(), records.max().item()) for records in given]

    def _as_trained_on(self, strips: Sequence[Tensor], moves: Sequence[Shifts | None] | None = None) -> Known:
        disguises = [self.evidence[victim].disguise for victim in self.victims]
        seen = [disguise(strip) if disguise else strip for disguise, strip in zip(disguises, strips, strict=True)]
        whole, shown = [], []
        for strip, one, move in zip(strips, seen, moves or [None] * len(strips), strict=True):
            # Of a strip and its disguise, laid on one another, both move alike.
            both = move(torch.cat([strip, one], dim=1)) if move else None
            first, second = (strip, one) if both is None else both.chunk(2, dim=1)
            whole.append(first)
            shown.append(second)
        return Known(self.record_layout.join(whole), shown)

    def _least(self, argument: str, usual: float) -> float:
        if argument in self.may_be_nothing:
            return 0
        return NARROWEST if argument.endswith("width") else LEAST[type(usual)]

    def _operators_behind(self, shadows: Iterable[nn.Module]) -> list[Operator]:
        return [self.evidence[victim].operator_behind(one) for victim, one in zip(self.victims, shadows, strict=True)]

    def _moves_of(self, victim: str) -> Shifts | None:
        return Shifts(self.new_seed(), self.device) if self.evidence[victim].moved else None

    @torch.no_grad()
    def _held_back_error(self, learners: nn.Module, rows: Tensor) -> float:
        with in_prediction(learners):
            parts = torch.split(rows, CHUNK)
            known = [self._as_trained_on(self.strips(self.auxiliary[part])) for part in parts]
            errors = [self.decoding_error(one) * len(one.whole) for one in known]
        return float(sum(errors) / len(rows))


@contextmanager
def in_prediction(network: nn.Module) -> Iterator[None]:
    """Let `network` be in prediction mode for a while, and then every part of it in the mode it was in."""
    modes = {part: part.training for part in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


def step_down(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Move what `optimizer` holds down the slope of `loss`; other networks in `loss` get no gradient."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.zero_grad()
    # Not torch.autograd.grad: its gradients lie in memory as the uploads do, and Adam wants them as the weights.
    torch.autograd.backward(loss, inputs=parameters)
    optimizer.step()
