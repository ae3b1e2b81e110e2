"""Causal discovery as a scikit-learn estimator: the columns of `X` are dealt to parties that find one graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from colonnade.discover.discover import discover
from colonnade.discover.graph import CausalGraph
from colonnade.discover.knowledge import Stated
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.discovery import DiscoverySettings
from colonnade.federation.federation import Federation
from colonnade.federation.knowledge import VariableKind
from colonnade.sklearn.columns import Parties, RandomState, checked, dealt, refused_as_value_error, seed_of


class VerticalCausalDiscovery(BaseEstimator):  # type: ignore[misc]
    """Finds one causal graph over columns that sit at different parties.

    All parties and the coordinator live in this process; what each of them sees is what it would see over a network.
    A DataFrame may hold numbers, text and categories, an array numbers; missing values need `{"missing": "impute"}`.

    Args:
        parties: each party's columns, by name or by number; columns that no party names are left out. None deals the
            columns evenly to two parties.
        secure: whether features and gradients are computed under encryption. The graph is the same up to rounding, and
            found far sooner without.
        recipe: `default`, or `paper` for the published way of training.
        knowledge: what is known about the graph, a `co.Knowledge` or a mapping such as `{"roots": ["age"]}`; or one
            such for each party, about its own variables. Columns without a name are called `x0`, `x1`, ...
        kinds: `continuous`, `binary`, `count` or `categorical`, of columns whose kind is not to be guessed.
        settings: other fields of `DiscoverySettings`, such as `{"epochs": 100}`.
        random_state: every random choice comes from it; a whole number is the seed that `co.discover` would be given.

    Attributes:
        graph_: the `CausalGraph`, its variables in the order of the parties.
        adjacency_: array [cause, effect] in the order of the columns of `X`: the strength of each edge, 0 where there
            is none, and for columns that no party names.
        parties_: the columns of each party, by name.
        n_features_in_: how many columns `X` had.
        feature_names_in_: their names, if `X` had names.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> dose = rng.normal(size=300)
        >>> X = pd.DataFrame({"dose": dose, "level": np.tanh(2 * dose) + 0.3 * rng.normal(size=300)})
        >>> parties = {"clinic": ["dose"], "lab": ["level"]}
        >>> search = VerticalCausalDiscovery(parties, secure=False, knowledge={"roots": ["dose"]}, random_state=0)
        >>> search.fit(X).graph_.parents("level")
        ('dose',)
    """

    graph_: CausalGraph
    adjacency_: npt.NDArray[np.float64]
    parties_: dict[str, list[str]]

    def __init__(
        self,
        parties: Parties | None = None,
        *,
        secure: bool = True,
        recipe: str = "default",
        knowledge: Stated | Mapping[str, Stated] | None = None,
        kinds: Mapping[str, VariableKind] | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.parties = parties
        self.secure = secure
        self.recipe = recipe
        self.knowledge = knowledge
        self.kinds = kinds
        self.settings = settings
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._imputes
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the graph over the columns of `X`; `y` is ignored: give a label as a column, it is a variable too."""
        with refused_as_value_error():
            frame = self._records(X)
            settings = _known(self.settings)
            parties = dealt(self.parties, list(frame.columns), ["first", "second"])
            graph = discover(
                Federation.from_frame(frame, parties),
                self.secure,
                recipe=self.recipe,
                seed=seed_of(self.random_state),
                knowledge=self.knowledge,
                kinds=self.kinds,
                progress=False,
                **settings,
            )
        self.parties_, self.graph_ = parties, graph
        self.adjacency_ = (
            graph.adjacency.reindex(frame.columns, axis=0).reindex(frame.columns, axis=1).fillna(0).to_numpy()
        )
        return self

    @property
    def _imputes(self) -> bool:
        return isinstance(self.settings, Mapping) and self.settings.get("missing") == "impute"

    def _records(self, X: Any) -> pd.DataFrame:
        finite = "allow-nan" if self._imputes else True
        frame = checked(self, X, ensure_all_finite=finite, ensure_min_samples=2, ensure_min_features=2)
        if len(frame.columns) < 2:
            what = f"a graph needs two columns, and X has {len(frame.columns)} feature(s)"
            raise DataError(what, where="X", remedy="give all columns that may cause each other")
        return frame


def _known(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    known = set(DiscoverySettings.model_fields) - {"secure"}
    for name in settings or {}:
        if name not in known:
            remedy = "it is a parameter of its own" if name == "secure" else nearest(str(name), known)
            raise ConfigError(f"unknown setting '{name}'", where="settings", remedy=remedy)
    return dict(settings or {})
