"""CausShield as a defense: adapt the generator to the batch, upload its representations, route the gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from colonnade.checkpoint import named, under
from colonnade.data.preparation import FeaturePreparation, ImagePreparation, TablePreparation
from colonnade.defend.base import Defense
from colonnade.defend.causshield.adaptation import Adaptation, AdaptationSettings
from colonnade.defend.causshield.colour import LIGHTNESS_MODES, LightnessMode
from colonnade.defend.causshield.decomposition import DECOMPOSITION_MODES, DIMENSIONS, DecompositionMode, Dimensions
from colonnade.defend.causshield.generator import Generator
from colonnade.defend.causshield.masker import MASK_SOURCES, MaskSource
from colonnade.defend.causshield.surrogates import SURROGATES, ImageSurrogates, SurrogateKind, Surrogates
from colonnade.defend.causshield.tabular import Graph, graph_from, table_surrogates
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share as _share
from colonnade.errors import ConfigError
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.strength import number, one_of, yes_or_no

Route = Literal["straight", "first_order", "persistent", "separate"]
Deploy = Literal["generator", "bottom"]
ROUTES: tuple[str, ...] = get_args(Route)
DEPLOYS: tuple[str, ...] = get_args(Deploy)
LASTING = ("persistent", "separate")
"""Routes whose generator lives on from batch to batch."""

DEPLOY_BATCH = 128
CALIBRATION_BATCHES = 50
"""Random training batches whose statistics the frozen generator normalises by."""
WIDEST_FLAT = 4096
"""A correlation matrix of more dimensions than this fills memory and has next to no rank."""


@DEFENSES.register("causshield")
class CausShield(Defense):
    """CausShield: for every batch a copy of the bottom unlearns what surrogates change, and its output is uploaded.

    Surrogates are the batch's own records with other colours, textures or columns. A generator starts at the bottom's
    weights and takes M steps towards representations that are the same for a record and its surrogate and whose
    dimensions are independent (Eq. 11-19). Labels are not needed. At the end one generator is adapted to random
    training batches and frozen: it computes every upload of the finished model. Until then an upload that is not
    trained on comes from the bottom's weights plus the last batch's change.

    What it does not do: being blind to colour hides little of an image. On CIFAR-10, in a measurement of one seed that
    preceded this code, an oracle decoder rebuilt its uploads nearly as well as undefended ones (squared error .0023 at
    M = 10, undefended .0012, mean image .062). URVFL, the attack it was published against, found as much in uploads
    made as in training as without a defense (`causshield-deploy`, a narrow ResNet). Only a generator that went further
    than those of training turned it away, and the top model with it. Tables show why: where one column of three causes
    the label, uploads hang five times less on the other two (.04 of their spread for .22), and a linear guess still
    finds these (R^2 about .9). What is small is not gone; it takes noise to hide it.

    Args:
        rounds: M, adaptation steps for each batch.
        rounds_end: M falls linearly to this over `decay_steps`; None keeps it.
        decay_steps: training steps over which M falls.
        route: how the task's gradient reaches the bottom. `straight`: as if the bottom itself had computed the upload.
            `first_order`: through the generator, whose change is taken for a constant. `persistent`: likewise, and
            the change and its optimiser live on from batch to batch. `separate`: not at all. The generator is copied
            once, as Algorithm 1 can be read, and goes on learning from its own loss alone; whoever sends gradients
            can't steer it, and the bottom rests.
        share: part of each batch that the generator adapts to; less is quicker.
        learning_rate: of the generator's Adam.
        surrogate: which surrogates of images, see `ImageSurrogates`; tables have their own.
        l_mode: what Lab surrogates do with lightness: `a2` (as published), `copy`, `mix`.
        surrogate_epochs: passes over the records when the networks of Lab surrogates are trained.
        graph: for tables, which columns cause the label: a file of a causal graph, a mapping of effects to their
            causes, or a list of the label's causes; it may name columns of other parties, but must name some of this
            party's and not all. None knows nothing, see `TableSurrogates`.
        label: the label's name in `graph`.
        dec_mode: the form of the decomposition loss, see `decomposition_loss`.
        dec_weight: lambda of Eq. 19.
        dimensions: what a dimension of a map is, see `as_samples`.
        mask_source: where Eq. 16 finds the upper dimensions: `masker` samples them from its own scores, `grad` takes
            those with the largest gradients so far, `none` leaves the masker out.
        mask_weight: weight of the scores in the generator's loss.
        mask_share: tau, the share of upper dimensions.
        faithful: train the masker after every adaptation step, as published, not once a batch.
        deploy: what computes the uploads of the finished model; `bottom` shows what the generator costs or gains.
        deploy_rounds: adaptation steps of the generator that stays; None takes as many as a batch has. The top model
            has learned from generators of M steps: one that goes further is strange to it (`causshield-deploy`).
        cuda_graph: on an accelerator, record the adaptation step once and replay it (a step of the whole run at M = 5
            costs 5.3 undefended ones on an H200, without 8.5); where that can't be done, nothing changes.
    """

    name: ClassVar[str] = "causshield"
    imitated_by_bottom: ClassVar[bool] = True
    imitated_by_records: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("graph",)
    knob: ClassVar[str | None] = "rounds"
    published_strengths: ClassVar[tuple[float, ...]] = (20, 30)
    cost: ClassVar[str] = (
        "2 M bottom steps, recorded on a GPU: 4.8 x and 5.7 x an undefended step at M = 5 (5.3 for a step of the whole "
        "run), 13.2 x at M = 30"
    )

    def __init__(
        self,
        rounds: int = 5,
        *,
        rounds_end: int | None = None,
        decay_steps: int | None = None,
        route: Route = "straight",
        share: float = 1.0,
        learning_rate: float = 1e-4,
        surrogate: SurrogateKind = "auto",
        l_mode: LightnessMode = "mix",
        surrogate_epochs: int = 20,
        graph: Graph | Path | None = None,
        label: str | None = None,
        dec_mode: DecompositionMode = "cirl",
        dec_weight: float = 5.0,
        dimensions: Dimensions = "local",
        mask_source: MaskSource = "masker",
        mask_weight: float = 0.1,
        mask_share: float = 0.5,
        faithful: bool = False,
        deploy: Deploy = "generator",
        deploy_rounds: int | None = None,
        cuda_graph: bool = True,
    ) -> None:
        super().__init__()
        self.rounds = _whole("rounds", rounds)
        self.rounds_end = None if rounds_end is None else _whole("rounds_end", rounds_end)
        self.decay_steps = None if decay_steps is None else _whole("decay_steps", decay_steps)
        if (self.rounds_end is None) != (self.decay_steps is None):
            remedy = "give both or neither"
            raise ConfigError("rounds_end and decay_steps need each other", where="causshield", remedy=remedy)
        self.route = one_of("causshield.route", route, ROUTES)
        self.share = _share("causshield.share", share)
        self.learning_rate = number("causshield.learning_rate", learning_rate, at_least=0)
        self.surrogate = one_of("causshield.surrogate", surrogate, SURROGATES)
        self.l_mode = one_of("causshield.l_mode", l_mode, LIGHTNESS_MODES)
        self.surrogate_epochs = _whole("surrogate_epochs", surrogate_epochs)
        self.graph = graph_from(graph)
        if label is not None and not isinstance(label, str):
            raise ConfigError(f"{label!r} is no name", where="causshield.label", remedy="give the label's name")
        self.label = label
        self.dec_mode = one_of("causshield.dec_mode", dec_mode, DECOMPOSITION_MODES)
        self.dec_weight = number("causshield.dec_weight", dec_weight, at_least=0)
        self.dimensions = one_of("causshield.dimensions", dimensions, DIMENSIONS)
        self.mask_source = one_of("causshield.mask_source", mask_source, MASK_SOURCES)
        self.mask_weight = number("causshield.mask_weight", mask_weight, at_least=0)
        self.mask_share = _share("causshield.mask_share", mask_share)
        self.faithful = yes_or_no("causshield.faithful", faithful)
        self.cuda_graph = yes_or_no("causshield.cuda_graph", cuda_graph)
        self.deploy = one_of("causshield.deploy", deploy, DEPLOYS)
        if self.route == "separate" and self.deploy == "bottom":
            remedy = "deploy the generator; where the route is 'separate' it alone has learned"
            raise ConfigError("a bottom that rests can't be deployed", where="causshield.deploy", remedy=remedy)
        if self.route == "separate" and self.mask_source == "grad":
            what = "gradients that choose the mask would steer a generator that nobody is to steer"
            remedy = "choose another mask_source, or another route"
            raise ConfigError(what, where="causshield.mask_source", remedy=remedy)
        self.deploy_rounds = None if deploy_rounds is None else _whole("deploy_rounds", deploy_rounds)
        self._preparation: FeaturePreparation | None = None
        self._bottom: nn.Module | None = None
        self._record_shape: Shape = ()
        self._adaptation: Adaptation | None = None
        self._surrogates: Surrogates | None = None
        self._deployed: Generator | None = None
        self._step = 0
        self._meters, self._metered = torch.zeros(2), 0

    def meet(self, preparation: FeaturePreparation) -> None:
        """Remember how records became numbers: surrogates change pixels and columns."""
        self._preparation = preparation

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Remember the bottom, whose weights the generator starts from; it is trained as it is."""
        self._bottom, self._record_shape = bottom, input_shape
        return bottom

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Build generator and masker, and train the surrogates on the party's own records."""
        surrogates = self._begin(bottom, data)
        with torch.enable_grad():
            surrogates.fit(data, self.generator)

    def resume(self, bottom: nn.Module, data: Tensor) -> None:
        """Build the same; what networks have learned is loaded."""
        self._begin(bottom, data).recall(data)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return what the generator makes of `x`; when training, it is adapted first."""
        if not train and self.deploy == "bottom":
            return h
        device = x.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        # Losses, surrogates and steps are computed in full; the generator itself goes back to `half`.
        with torch.autocast(device, enabled=False):
            return self._trained_upload(x, h, half) if train else self._settled_upload(x, half)

    def rehearse(self, x: Tensor, h: Tensor) -> Tensor:
        """Return an upload that stays at home: M falls by steps of training, and Ψ tells of what was sent."""
        counted = self._step, self._meters, self._metered
        upload = self.protect(x, h, train=True)
        self._step, self._meters, self._metered = counted
        return upload

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Carry the gradient into the bottom, by the chosen route."""
        if self.mask_source == "grad":
            self._ready().note_gradient(grad)
        if self.route == "separate":
            return
        # Straight: the gradient taken at G(x) meets the Jacobian of f at x (Eq. 22, 25).
        source = h if self.route == "straight" else upload
        source.backward(grad.to(source))  # type: ignore[no-untyped-call]

    def finish(self, bottom: nn.Module, data: Tensor) -> None:
        """Adapt the generator that stays, and give it the running statistics of training records."""
        if self.deploy == "generator":
            adaptation = self._ready()
            adaptation.generator.half = None
            if self.route in LASTING:
                adaptation.start(adaptation.shift)  # it has been adapted all the time
            else:
                adaptation.start()
                rounds = self.rounds_at(self._step) if self.deploy_rounds is None else self.deploy_rounds
                with torch.enable_grad():
                    for _ in range(rounds):
                        self._adapt_to(self._some_of(data))
            adaptation.generator.calibrate(self._some_of(data) for _ in range(CALIBRATION_BATCHES))
            self._deployed = adaptation.generator
        self._adaptation = self._surrogates = None

    def behind(self, shadow: nn.Module, known: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the upload of a generator that unlearns what surrogates of known records change.

        Its gradient reaches the shadow as if that had computed the upload, whatever the route.
        """
        if known is None:
            raise ConfigError("surrogates are made of records", where="causshield", remedy="give some")
        self.prepare(shadow, known)

        def moved(x: Tensor, h: Tensor) -> Tensor:
            with torch.enable_grad():
                upload = self.protect(x.detach(), h.detach(), train=True)
            return h + (upload.to(h) - h).detach()

        return moved

    def rounds_at(self, step: int) -> int:
        """Return M at training step `step`."""
        if self.rounds_end is None or self.decay_steps is None:
            return self.rounds
        return round(self.rounds + (self.rounds_end - self.rounds) * min(step / self.decay_steps, 1.0))

    def meters(self) -> dict[str, float]:
        """Return Psi, the relative squared distance of upload and representation (Definition 2), and l_Dec."""
        if self._metered == 0:
            return {}
        psi, decomposition = (self._meters / self._metered).tolist()
        self._meters, self._metered = torch.zeros(2), 0
        return {"psi": psi, "decomposition": decomposition}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the random stream, all networks and the meters; after `finish`, the networks that uploads need."""
        state = {**super().state_dict(), "step": torch.tensor(self._step)}
        if self._deployed is not None:
            state |= named("deployed", self._deployed.network.state_dict())
        if self._adaptation is not None:
            state |= named("adaptation", self._adaptation.state_dict())
            state |= {"meters": self._meters, "metered": torch.tensor(self._metered)}
        if self._surrogates is not None:
            state |= named("surrogates", self._surrogates.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; build what is not there yet."""
        super().load_state_dict(state)
        self._step = int(state["step"])
        if "meters" in state:  # an older version kept none
            self._meters, self._metered = state["meters"].clone(), int(state["metered"])
        if deployed := under("deployed", state):
            self._deployed = Generator(self._known_bottom(), self.learning_rate)
            self._deployed.network.load_state_dict(deployed)
        if adaptation := under("adaptation", state):
            self._adaptation = self._adaptation or self._new_adaptation(seed=0)
            self._adaptation.load_state_dict(adaptation)
        if surrogates := under("surrogates", state):
            self._surrogates = self._surrogates or self._new_surrogates()
            self._surrogates.load_state_dict(surrogates)

    def describe(self) -> dict[str, Any]:
        """Return the name and every argument."""
        arguments = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return {"name": self.name, **arguments}

    def _begin(self, bottom: nn.Module, data: Tensor) -> Surrogates:
        self._step, self._deployed = 0, None
        self._bottom, self._record_shape = bottom, tuple(data.shape[1:])
        seed = torch.randint(2**62, (1,), generator=self.generator, device=self.generator.device).item()
        self._adaptation = self._new_adaptation(int(seed))
        self._surrogates = self._new_surrogates()
        return self._surrogates

    def _trained_upload(self, x: Tensor, h: Tensor, half: torch.dtype | None) -> Tensor:
        adaptation = self._ready()
        generator = adaptation.generator
        generator.half = half
        adaptation.start(adaptation.shift if self.route in LASTING else None)
        self._adapt_to(x, self.rounds_at(self._step))
        adaptation.keep_shift()
        self._step += 1
        if self.route in ("straight", "separate"):
            upload = generator.upload(x, train=True)
        else:
            moved = [weight + by for weight, by in zip(adaptation.bottom_weights, adaptation.shift, strict=True)]
            upload = generator.upload_at(moved, x)
        self._meter(upload.detach().float(), h.detach().float(), adaptation.decomposition)
        return upload

    def _settled_upload(self, x: Tensor, half: torch.dtype | None) -> Tensor:
        """Return the upload of records that nothing is learned from."""
        if self._deployed is not None:
            self._deployed.to(x.device)
            self._deployed.half = half
            return self._deployed.upload(x, train=False)
        adaptation = self._ready()
        adaptation.start(adaptation.shift)
        adaptation.generator.half = half
        return adaptation.generator.upload(x, train=False)

    def _adapt_to(self, x: Tensor, rounds: int = 1) -> None:
        if self._surrogates is None:
            raise ConfigError("it has no surrogates yet", where="causshield", remedy="call prepare first")
        surrogate = self._surrogates.draw(x, self.generator)
        self._ready().take_steps(x, surrogate, rounds, self.generator)

    def _some_of(self, data: Tensor) -> Tensor:
        """Return a random batch of records."""
        count = min(DEPLOY_BATCH, len(data))
        rows = torch.randint(len(data), (count,), generator=self.generator, device=self.generator.device)
        return data[rows.to(data.device)]

    def _meter(self, upload: Tensor, h: Tensor, decomposition: Tensor) -> None:
        psi = (upload - h).square().sum() / h.square().sum().clamp_min(1e-12)
        # Added up where they are: reading a number off a GPU would make every step wait.
        self._meters = self._meters.to(psi) + torch.stack([psi, decomposition])
        self._metered += 1

    def _ready(self) -> Adaptation:
        if self._adaptation is None:
            raise ConfigError("it has not been prepared", where="causshield", remedy="call prepare first")
        return self._adaptation

    def _known_bottom(self) -> nn.Module:
        if self._bottom is None:
            raise ConfigError("it knows no bottom model", where="causshield", remedy="call extend first")
        return self._bottom

    def _new_adaptation(self, seed: int) -> Adaptation:
        bottom = self._known_bottom()
        shape = upload_shape(bottom, self._record_shape)
        width = torch.Size(shape).numel()
        if self.dimensions == "flat" and width > WIDEST_FLAT:
            raise ConfigError(
                f"{width} dimensions are too many for 'flat'",
                where="causshield.dimensions",
                remedy="use local or gap",
            )
        settings = AdaptationSettings(**{field.name: getattr(self, field.name) for field in fields(AdaptationSettings)})
        return Adaptation(bottom, shape, settings, seed)

    def _new_surrogates(self) -> Surrogates:
        preparation, shape = self._preparation, self._record_shape
        if len(shape) == 3:
            known = preparation if isinstance(preparation, ImagePreparation) else None
            return ImageSurrogates(self.surrogate, shape, known, self.l_mode, self.surrogate_epochs)
        if self.surrogate != "auto":
            raise ConfigError(f"'{self.surrogate}' is for images", where="causshield.surrogate", remedy="leave it out")
        columns = preparation if isinstance(preparation, TablePreparation) else None
        return table_surrogates(columns, shape[0], self.graph, self.label)


def _whole(name: str, value: int) -> int:
    return int(number(f"causshield.{name}", value, at_least=1, whole=True))
