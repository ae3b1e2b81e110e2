"""The causal graph that a federation found: which variable causes which, how sure that is, and who may know it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.discover import graph_export, graph_file
from colonnade.discover.graph_parts import (
    WHERE,
    Edge,
    Matrix,
    causal_order,
    checked_contributions,
    checked_cost,
    checked_matrix,
    checked_names,
    checked_parties,
    checked_share,
)
from colonnade.discover.graph_text import describe
from colonnade.errors import ConfigError, nearest
from colonnade.measure.graph import Mask, graph_scores

if TYPE_CHECKING:
    import networkx
    from pgmpy.base import DAG


class CausalGraph:
    """A causal graph over the variables of all parties. It never changes and is always acyclic.

    Frames that it hands out are copies: [cause, effect], rows and columns in the order of `variables`.

    Args:
        adjacency: strength of each edge, 0 where there is none.
        party_of: the party of each variable.
        confidence: share of repeated runs that found each edge.
        strengths: strength of every possible edge before weak ones were left out.
        notes: plain sentences for the reader: warnings, how the threshold was chosen. Every party may read them.
        cost: what the search took: seconds, bytes, steps.
        varsortability: how far variances alone give the order away (`measure.sortability`); None or NaN if unknown.
        r2_sortability: the same for R².
        reveal: `all`, or the one party whose edges these are.
        contributions: each party's share of what columns bring to the variables of other parties; every party may know.

    Raises:
        ConfigError: the edges form a cycle, or the arguments do not fit together.

    >>> strength = pd.DataFrame([[0, 0.5], [0, 0]], index=["age", "glucose"], columns=["age", "glucose"])
    >>> graph = CausalGraph(strength, {"age": "clinic", "glucose": "lab"})
    >>> graph.parents("glucose")
    ('age',)
    >>> graph.score([[0, 1], [0, 0]])["f1"]
    1.0
    """

    def __init__(
        self,
        adjacency: pd.DataFrame,
        party_of: Mapping[str, str],
        *,
        confidence: pd.DataFrame | None = None,
        strengths: pd.DataFrame | None = None,
        notes: Sequence[str] = (),
        cost: Mapping[str, int | float] | None = None,
        varsortability: float | None = None,
        r2_sortability: float | None = None,
        reveal: str = "all",
        contributions: Mapping[str, float] | None = None,
    ) -> None:
        self._variables = checked_names(adjacency)
        self._parties = checked_parties(party_of, self._variables)
        self._adjacency = checked_matrix("adjacency", adjacency, self._variables, math.inf)
        self._order = causal_order(self._adjacency != 0, self._variables)
        self._confidence = (
            None if confidence is None else checked_matrix("confidence", confidence, self._variables, 1.0)
        )
        self._strengths = (
            None if strengths is None else checked_matrix("strengths", strengths, self._variables, math.inf)
        )
        self._notes = tuple(notes)
        self._cost = checked_cost(cost or {})
        self._varsortability = checked_share("varsortability", varsortability)
        self._r2_sortability = checked_share("r2_sortability", r2_sortability)
        self._reveal = reveal
        self._contributions = checked_contributions(contributions or {}, self._parties)
        self._check_revealed()

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables."""
        return self._variables

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties that hold a variable, in the order of their first one."""
        return tuple(dict.fromkeys(self._parties))

    @property
    def party_of(self) -> dict[str, str]:
        """The party of each variable."""
        return dict(zip(self._variables, self._parties, strict=True))

    @property
    def adjacency(self) -> pd.DataFrame:
        """Strength of each edge, 0 where there is none."""
        return self._frame(self._adjacency)

    @property
    def confidence(self) -> pd.DataFrame | None:
        """Share of repeated runs that found each edge, None without such runs."""
        return None if self._confidence is None else self._frame(self._confidence)

    @property
    def strengths(self) -> pd.DataFrame | None:
        """Strength of every possible edge before weak ones were left out, None if not kept."""
        return None if self._strengths is None else self._frame(self._strengths)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: warnings, how the threshold was chosen."""
        return self._notes

    @property
    def cost(self) -> dict[str, int | float]:
        """What the search took: seconds, bytes, steps."""
        return dict(self._cost)

    @property
    def varsortability(self) -> float | None:
        """How far variances alone give the causal order away: 1 wholly, .5 not at all."""
        return self._varsortability

    @property
    def r2_sortability(self) -> float | None:
        """How far R² alone gives the causal order away: 1 wholly, 0 wholly when sorted downwards, .5 not at all."""
        return self._r2_sortability

    @property
    def reveal(self) -> str:
        """`all`, or the one party whose edges these are."""
        return self._reveal

    @property
    def contributions(self) -> dict[str, float]:
        """Each party's share of the held-out likelihood that columns bring to the variables of other parties.

        Shapley values, which sum to 1; a share below 0 means that those columns did harm. Empty where no records were
        held out (`held_out` of the settings), or where nobody's columns bring anything to others.
        """
        return dict(self._contributions)

    @property
    def order(self) -> tuple[str, ...]:
        """All variables, every cause before its effects."""
        return self._order

    @property
    def edges(self) -> pd.DataFrame:
        """One row an edge, the strongest first; `kind` is `inter` between parties and `intra` within one."""
        return pd.DataFrame(self.edge_list(), columns=list(Edge._fields)).astype(
            {"strength": np.float64, "confidence": np.float64}
        )

    def edge_list(self) -> list[Edge]:
        """Return the rows of `edges` one by one."""
        sure = np.full(self._adjacency.shape, np.nan) if self._confidence is None else self._confidence
        found = [
            Edge(
                cause=self._variables[cause],
                effect=self._variables[effect],
                strength=float(self._adjacency[cause, effect]),
                confidence=float(sure[cause, effect]),
                cause_party=self._parties[cause],
                effect_party=self._parties[effect],
                kind="intra" if self._parties[cause] == self._parties[effect] else "inter",
            )
            for cause, effect in np.argwhere(self._adjacency)
        ]
        return sorted(found, key=lambda edge: -edge.strength)

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the direct causes of a variable."""
        effect = self._position(name)
        return tuple(self._variables[cause] for cause in np.flatnonzero(self._adjacency[:, effect]))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return all causes of a variable, direct and indirect, every cause before its effects."""
        found, waiting = set[str](), [*self.parents(name)]
        while waiting:
            cause = waiting.pop()
            if cause not in found:
                found.add(cause)
                waiting += self.parents(cause)
        return tuple(variable for variable in self._order if variable in found)

    def of(self, party: str) -> CausalGraph:
        """Return what `party` may know: the edges that touch one of its variables. All names of variables stay.

        Entries about other pairs of variables are 0.
        """
        if party not in self._parties:
            raise ConfigError(f"'{party}' holds no variable", where="party", remedy=nearest(party, self.parties))
        if party == "all":
            raise ConfigError("a party named 'all' cannot be told apart from everybody", where="party")
        if self._reveal == party:
            return self
        if self._reveal != "all":
            remedy = f"ask the holder of the whole graph for the edges of '{party}'"
            raise ConfigError(f"this graph holds only the edges of '{self._reveal}'", where="party", remedy=remedy)
        known = self._touches(party)

        def kept(matrix: Matrix | None) -> pd.DataFrame | None:
            return None if matrix is None else self._frame(np.where(known, matrix, 0.0))

        return self._like(
            adjacency=self._frame(np.where(known, self._adjacency, 0.0)),
            confidence=kept(self._confidence),
            strengths=kept(self._strengths),
            reveal=party,
        )

    def with_notes(self, notes: Sequence[str]) -> CausalGraph:
        """Return the same graph with further notes."""
        return self._like(notes=[*self._notes, *notes])

    def score(self, truth: CausalGraph | pd.DataFrame | npt.ArrayLike) -> dict[str, int | float]:
        """Score the edges against a true graph: see `measure.graph.graph_scores`.

        A graph of one party's edges is scored on the pairs of variables that touch that party.

        Args:
            truth: a graph, a frame over the same names, or an array in the order of `variables`.
        """
        known = self._known()
        return graph_scores((self._adjacency != 0) & known, self._aligned(truth) & known, self._parties)

    def agree(self, other: CausalGraph) -> dict[str, int | float]:
        """Count the edges that two graphs share: in both, reversed, only here, only there.

        `agreement` is the share of those in both among all; NaN where neither has an edge. Only pairs of variables
        that both graphs may know are compared.
        """
        theirs = self._aligned(other)
        positions = [other.variables.index(name) for name in self._variables]
        known = self._known() & other._known()[np.ix_(positions, positions)]
        mine, theirs = (self._adjacency != 0) & known, theirs & known
        reversed_here = mine & theirs.T
        counts: dict[str, int | float] = {
            "both": int((mine & theirs).sum()),
            "reversed": int(reversed_here.sum()),
            "only_here": int((mine & ~theirs & ~reversed_here).sum()),
            "only_there": int((theirs & ~mine & ~reversed_here.T).sum()),
        }
        edges = sum(counts.values())
        return {**counts, "agreement": counts["both"] / edges if edges else math.nan}

    def to_networkx(self) -> networkx.DiGraph:
        """Return a networkx graph: nodes have `party`; edges `strength`, `kind` and, where known, `confidence`."""
        return graph_export.networkx_graph(self)

    def to_dot(self) -> str:
        """Return Graphviz DOT: one colour a party, edges between parties bold."""
        return graph_export.dot_text(self)

    def to_gml(self) -> str:
        """Return GML, the text that networkx and DoWhy read (`CausalModel(graph=...)`), whatever the names."""
        return graph_export.gml_text(self)

    def to_graphml(self, path: Path | str) -> None:
        """Write a GraphML file (networkx, Gephi, yEd, igraph)."""
        graph_export.write_graphml(self, Path(path))

    def to_pgmpy(self) -> DAG:
        """Return pgmpy's graph; needs pgmpy."""
        return graph_export.pgmpy_graph(self)

    def save(self, path: Path | str) -> None:
        """Write everything to one JSON file, wholly or not at all."""
        graph_file.write_graph(self, Path(path))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file that `save` wrote.

        Raises:
            RunError: the file is missing, damaged or from another version.
        """
        return graph_file.read_graph(Path(path), cls)

    def __repr__(self) -> str:
        return describe(self)

    def _like(self, **changes: Any) -> CausalGraph:
        parts: dict[str, Any] = {
            "adjacency": self.adjacency,
            "party_of": self.party_of,
            "confidence": self.confidence,
            "strengths": self.strengths,
            "notes": self._notes,
            "cost": self._cost,
            "varsortability": self._varsortability,
            "r2_sortability": self._r2_sortability,
            "reveal": self._reveal,
            "contributions": self._contributions,
        }
        return CausalGraph(**{**parts, **changes})

    def _frame(self, matrix: Matrix) -> pd.DataFrame:
        return pd.DataFrame(matrix.copy(), index=list(self._variables), columns=list(self._variables))

    def _position(self, name: str) -> int:
        if name not in self._variables:
            raise ConfigError(f"there is no variable '{name}'", where="name", remedy=nearest(name, self._variables))
        return self._variables.index(name)

    def _touches(self, party: str) -> Mask:
        own = np.array([holder == party for holder in self._parties])
        touches: Mask = own[:, None] | own[None, :]
        return touches

    def _known(self) -> Mask:
        return np.ones(self._adjacency.shape, dtype=np.bool_) if self._reveal == "all" else self._touches(self._reveal)

    def _check_revealed(self) -> None:
        if self._reveal != "all" and self._reveal not in self._parties:
            remedy = nearest(self._reveal, ["all", *self.parties])
            raise ConfigError(f"'{self._reveal}' holds no variable", where="reveal", remedy=remedy)
        hidden = ~self._known()
        for matrix in (self._adjacency, self._confidence, self._strengths):
            if matrix is not None and matrix[hidden].any():
                what = f"holds edges that do not touch '{self._reveal}'"
                raise ConfigError(what, where=WHERE, remedy="take the party's graph with of(party)")

    def _aligned(self, truth: CausalGraph | pd.DataFrame | npt.ArrayLike) -> Mask:
        """Return the mask of another graph in the order of this one's variables."""
        if isinstance(truth, CausalGraph):
            truth = truth.adjacency
        if isinstance(truth, pd.DataFrame):
            for names in (truth.index, truth.columns):
                if not names.is_unique or set(names) != set(self._variables):
                    stranger = next(iter(set(names) ^ set(self._variables)), "a name that occurs twice")
                    remedy = "give both graphs the same variables"
                    raise ConfigError(f"the graphs differ in the variable '{stranger}'", where="truth", remedy=remedy)
            truth = truth.loc[list(self._variables), list(self._variables)].to_numpy()
        mask: Mask = np.asarray(truth) != 0
        if mask.shape != self._adjacency.shape:
            what = f"an array of shape {mask.shape} is no graph of {len(self._variables)} variables"
            raise ConfigError(what, where="truth", remedy="give one row and one column for each variable")
        return mask
