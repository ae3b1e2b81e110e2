"""Encoders as fragments: features and gradients computed under encryption (Algorithms 1-4 of VFedCD, put right).

W from a source party to a target party is the sum, modulo 2^59, of a fragment at the source and a fragment at the
target; nobody else needs one. Columns never change, so a source encrypts them once, under its own key, and every target
multiplies them with its fragment and its gradient, exchange by exchange; what it sends back is masked.

The source draws the first weights: a target that knew a part of them could undo the encoder in the first exchange. Of
the features a target learns the sum over all other parties, whose shares carry masks that cancel out, so that with
three or more parties no single one's features are seen; but for held-out records, if there are any, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from colonnade.checkpoint import named, under
from colonnade.discover.exchange import Exchange, Factors, Floats, exchange_metrics
from colonnade.discover.noise import gaussian
from colonnade.errors import DataError, FrameError
from colonnade.secure import backend
from colonnade.secure.aggregate import ZeroMasks
from colonnade.secure.dispatch import Line
from colonnade.secure.norms import LARGEST_SQUARED_NORM, norms_as_holder, norms_as_owner, reveal_norms
from colonnade.secure.rescale import encode_factors, rescale_as_holder, rescale_as_owner
from colonnade.secure.ring import (
    PRODUCT_SCALE,
    WEIGHT_SCALE,
    RingMatrix,
    decode,
    encode,
    encode_gradient,
    encode_plain,
    matmul,
    wrap,
)
from colonnade.secure.shares import add, subtract
from colonnade.secure.standing import BlockShape, KeptColumns, SentColumns
from colonnade.wire.message import Array

LARGEST_FEATURE = 128.0
"""Half of what the ring holds. Weights move little by little, so a sum about to wrap is seen here before it does."""
METRIC_SCALE = 13
_UNMAP = encode_factors(np.full((1, 1), 2.0**-METRIC_SCALE))
_BELOW_ZERO = 64.0


class SecureExchange(Exchange):
    """Fragments of encoders, one line of encrypted products for each peer."""

    def open(self, weights: Mapping[str, Floats]) -> None:
        """Make keys and lines, exchange public keys and mask seeds; the target's fragments start at zero."""
        channel, settings = self.conversation.channel, self.agreement.settings
        chosen = backend(settings.backend)()
        key_pair = chosen.generate()
        self._stack = ExitStack()
        self.lines = {peer: self._stack.enter_context(Line(channel, peer, chosen, key_pair)) for peer in self.peers}
        for line in self.lines.values():
            line.send_key()
        for line in self.lines.values():
            line.receive_key()
        self._masks = ZeroMasks(channel, self.agreement.parties)
        self._masks.exchange()
        self._forwards = 0
        self._plain = [encode_plain(block, where=self.name) for block in self.blocks]
        self._sent = [SentColumns(key_pair, plain) for plain in self._plain]
        self._held = {peer: self._columns_of(peer) for peer in self.peers}
        self._deliver_columns()
        self._kept_to: dict[str, Array] = {}
        self._kept_from: dict[str, Array] = {}
        self.as_source = {peer: encode(weights[peer], WEIGHT_SCALE) for peer in self.peers}
        self.as_target = {peer: np.zeros((self.layouts[peer].columns, self.units), np.uint64) for peer in self.peers}

    def forward(self, block: int) -> Floats:
        """Compute all others' features under encryption; see their sum."""
        records = len(self.blocks[block])
        parts = [np.zeros((records, self.units), np.uint64)]
        parts += [self._held[peer][block].forward(self.as_target[peer]) for peer in self.peers]
        for peer, line in self.lines.items():
            share = self._share(peer, block, self.noise_deviation)
            line.send_share(add(share, self._masks.mask(peer, self._forwards, share.shape)))
        parts += [line.take_share((records, self.units)) for line in self.lines.values()]
        self._forwards += 1
        return self._seen(parts)

    def forward_apart(self, block: int) -> dict[str, Floats]:
        """Compute all others' features under encryption; see each one's, since no masks hide who gave which share."""
        shape = len(self.blocks[block]), self.units
        kept = {peer: self._held[peer][block].forward(self.as_target[peer]) for peer in self.peers}
        for peer, line in self.lines.items():
            line.send_share(self._share(peer, block, self.agreement.settings.feature_noise))
        return {peer: self._seen([kept[peer], line.take_share(shape)]) for peer, line in self.lines.items()}

    def backward(self, block: int, update: Floats) -> None:
        """Share the gradient of every encoder out between its source and its target (Algorithm 4)."""
        whole = encode_gradient(update, where=self.name)
        prepared = None
        for peer, line in self.lines.items():
            prepared = prepared or line.evaluator.prepare(whole, memory=0)
            share = self._held[peer][block].backward(prepared)
            self.as_target[peer] = subtract(self.as_target[peer], share)
        for peer, line in self.lines.items():
            share = self._sent[block].receive_backward(line, self.units_of(peer))
            self.as_source[peer] = subtract(self.as_source[peer], share)
        self._forget()

    def squared_strengths(self, metric: Floats | None = None) -> dict[str, Array]:
        """Return shares of B², which mean something only to who gets the other party's shares too."""
        metrics = exchange_metrics(self, metric)
        if metric is not None:
            metrics[self.name] = metric
        found: dict[str, Array] = {}
        for source, target in self._pairs():
            line = self.lines[target if source == self.name else source]
            groups = self._groups(source, target)
            if source == self.name:
                rows = self._rows(self.as_source[target], metrics.get(target))
                if metric is not None:
                    rows = rescale_as_holder(line, rows, _UNMAP)
                found[f"to/{target}"] = norms_as_holder(line, rows, groups=groups)
            else:
                rows = self._rows(self.as_target[source], metrics.get(self.name))
                if metric is not None:
                    rows = rescale_as_owner(line, rows, _UNMAP)
                found[f"from/{source}"] = norms_as_owner(line, rows, groups=groups)
        return found

    def scale(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:
        """Scale shared weights exactly, edge by edge."""
        for source, target in self._pairs():
            if source == self.name:
                factors = self.own.spread(outgoing[target], self.hidden)
                share = rescale_as_holder(self.lines[target], self.as_source[target], factors)
                self.as_source[target] = share
            else:
                factors = self.layouts[source].spread(incoming[source], self.hidden)
                share = rescale_as_owner(self.lines[source], self.as_target[source], factors)
                self.as_target[source] = share

    def restrict(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:
        """Drop edges: their two parties know which, and each sets its own fragment to zero, after every update."""
        self._kept_from = {
            peer: self.layouts[peer].spread(factors, self.hidden) > 0 for peer, factors in incoming.items()
        }
        self._kept_to = {peer: self.own.spread(factors, self.hidden) > 0 for peer, factors in outgoing.items()}
        self._forget()

    def state(self) -> dict[str, Array]:  # noqa: D102
        return (
            named("to", self.as_source)
            | named("from", self.as_target)
            | named("kept_to", self._kept_to)
            | named("kept_from", self._kept_from)
            | named("answered", {peer: np.array(line.distance) for peer, line in self.lines.items()})
        )

    def load(self, state: Mapping[str, Array]) -> None:  # noqa: D102
        self.as_source, self.as_target = under("to", state), under("from", state)
        self._kept_to, self._kept_from = under("kept_to", state), under("kept_from", state)
        for peer, distance in under("answered", state).items():
            self.lines[peer].distance += float(distance)

    def _forget(self) -> None:
        for peer, kept in self._kept_to.items():
            self.as_source[peer][~kept] = 0
        for peer, kept in self._kept_from.items():
            self.as_target[peer][~kept] = 0

    @property
    def hidden_by(self) -> float | None:
        """How many bits hide this party's fragments and gradients in products so far, from the worst peer's view."""
        return min((line.total_bits for line in self.lines.values() if line.products), default=None)

    def close(self) -> None:  # noqa: D102
        self._stack.close()

    def _columns_of(self, peer: str) -> list[KeptColumns]:
        columns = self.layouts[peer].columns
        shapes = [BlockShape(len(block), columns, self.units) for block in self.blocks]
        return [KeptColumns(self.lines[peer], shape) for shape in shapes]

    def _deliver_columns(self) -> None:
        """Send every block of encrypted columns to every target; block by block, so that nobody holds more than one.

        Pair by pair: a block may be more than the wire takes before it is read, so not all may send at once.
        """
        for number, sent in enumerate(self._sent):
            for source, target in self._pairs():
                if source == self.name:
                    sent.send(self.lines[target], self.units_of(target))
                else:
                    self._held[source][number].receive()
            sent.forget()

    def _share(self, target: str, block: int, noise: float) -> RingMatrix:
        """Return this party's share of its features for `target`, who has the other."""
        answered = self._sent[block].receive_forward(self.lines[target], self.units_of(target))
        share = add(answered, matmul(self._plain[block], self.as_source[target]))
        return add(share, encode(gaussian(share.shape, noise), PRODUCT_SCALE)) if noise else share

    def _seen(self, shares: list[RingMatrix]) -> Floats:
        """Return the features that shares add up to."""
        features = decode(add(*shares), PRODUCT_SCALE)
        if np.abs(features).max(initial=0.0) >= LARGEST_FEATURE:
            raise DataError(
                "features grew beyond what the ring holds",
                where=self.name,
                remedy="use a smaller learning rate, or look for outliers in the columns",
                told=True,
            )
        return features

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield all ordered pairs with this party, everywhere in the same order: nobody waits in a circle."""
        for source in self.agreement.parties:
            for target in self.agreement.parties:
                if source != target and self.name in (source, target):
                    yield source, target

    def _rows(self, fragment: RingMatrix, metric: Floats | None) -> RingMatrix:
        """Return one row for each column and variable, mapped by the metric: whole numbers, so shares stay shares."""
        units = fragment.reshape(len(fragment), -1, self.hidden)
        if metric is not None:
            whole = np.rint(np.ldexp(metric, METRIC_SCALE)).astype(np.int64).view(np.uint64)
            units = np.einsum("pjh,jhm->pjm", units, whole)
        return wrap(units.reshape(-1, self.hidden))

    def _groups(self, source: str, target: str) -> npt.NDArray[np.int64]:
        """Return the edge that each row is a part of: a cause may have several columns."""
        layout, effects = self.layouts[source], self.layouts[target].variables
        causes = np.repeat(np.arange(layout.variables), layout.widths)
        return (causes[:, None] * effects + np.arange(effects)).ravel()


def reveal(shares: list[Array | None], shape: tuple[int, int], where: str) -> Floats:
    """As the coordinator: return B² from both parties' shares."""
    for share in shares:
        if share is None or share.size != np.prod(shape) or share.dtype != np.uint64:
            raise FrameError(f"'strength' holds no shares of shape {shape}", where=where)
    squares = reveal_norms(*(share.ravel() for share in shares if share is not None)).reshape(shape)
    # Noise may take a square below zero, where it looks like one far above what a strength may be.
    return np.where(squares > LARGEST_SQUARED_NORM - _BELOW_ZERO, squares - LARGEST_SQUARED_NORM, squares)
