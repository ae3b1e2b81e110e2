"""Colonnade: vertical federated learning that people can trust and use.

>>> import colonnade as co
>>> "gaussian" in co.defenses()
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Three rooms share their names with functions: loaded first, they leave the names to the functions below. They are
# quick to load, because none imports its own modules.
import colonnade.align as _align_room  # noqa: F401
import colonnade.audit as _audit_room  # noqa: F401
import colonnade.discover as _discover_room  # noqa: F401
from colonnade import errors  # noqa: F401  (whoever catches one shall not have to import it)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colonnade.align.alignment import Policy
    from colonnade.audit.attacks import AttackChoice
    from colonnade.audit.attribute_result import AttributeResult
    from colonnade.audit.attributes import audit_attributes
    from colonnade.audit.result import AuditResult
    from colonnade.data.datasets import Dataset, load_dataset
    from colonnade.data.records import Records
    from colonnade.defend.base import Defense
    from colonnade.discover.graph import CausalGraph
    from colonnade.discover.knowledge import Knowledge
    from colonnade.federation.federation import Federation
    from colonnade.federation.task import Task
    from colonnade.learn.model import Prediction, VerticalModel
    from colonnade.learn.train import train
    from colonnade.registry import Registry

__version__ = "0.1.0"

__all__ = [
    "AttributeResult",
    "AuditResult",
    "CausalGraph",
    "Dataset",
    "Defense",
    "Federation",
    "Knowledge",
    "Prediction",
    "Records",
    "Task",
    "VerticalModel",
    "align",
    "attacks",
    "audit",
    "audit_attributes",
    "datasets",
    "defenses",
    "discover",
    "load",
    "load_dataset",
    "train",
]

_HOMES = {
    "AttributeResult": "colonnade.audit.attribute_result",
    "AuditResult": "colonnade.audit.result",
    "CausalGraph": "colonnade.discover.graph",
    "Knowledge": "colonnade.discover.knowledge",
    "Dataset": "colonnade.data.datasets",
    "Defense": "colonnade.defend.base",
    "Federation": "colonnade.federation.federation",
    "Prediction": "colonnade.learn.model",
    "Records": "colonnade.data.records",
    "Task": "colonnade.federation.task",
    "VerticalModel": "colonnade.learn.model",
    "audit_attributes": "colonnade.audit.attributes",
    "load_dataset": "colonnade.data.datasets",
    "train": "colonnade.learn.train",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its room when it is first asked for: importing Colonnade does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'colonnade' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Name also what is not loaded yet: a prompt shall complete it."""
    return sorted({*globals(), *__all__})


def align(federation: Federation, policy: Policy = "drop") -> Federation:
    """Align the parties' records by private set intersection; see `colonnade.align.simulate`."""
    from colonnade.align.simulate import align_federation

    return align_federation(federation, policy)


def discover(federation: Federation, secure: bool = True, *, seed: int = 0, **settings: Any) -> CausalGraph:
    """Find one causal graph over the columns of all parties; see `colonnade.discover.discover.discover`."""
    from colonnade.discover.discover import discover as discover_graph

    return discover_graph(federation, secure, seed=seed, **settings)


def audit(
    model: VerticalModel, attacks: AttackChoice | Iterable[AttackChoice] = ("decoder",), **settings: Any
) -> AuditResult:
    """Attack what the parties of a trained model upload, and say what was found; see `colonnade.audit.audit.audit`."""
    from colonnade.audit.audit import audit as audit_model

    return audit_model(model, attacks, **settings)


def load(folder: str, device: str = "cpu") -> VerticalModel:
    """Read a model that `VerticalModel.save` wrote."""
    from colonnade.learn.model import VerticalModel

    return VerticalModel.load(folder, device)


def defenses() -> Registry[type[Defense]]:
    """Return all registered defenses: iterates over names, prints one line each."""
    from colonnade.defend import DEFENSES

    return DEFENSES


def attacks() -> Registry[Any]:
    """Return all registered attacks: iterates over names, prints one line each."""
    from colonnade.attack import ATTACKS

    return ATTACKS


def datasets() -> Registry[Any]:
    """Return all registered data sets: iterates over names, prints one line each."""
    from colonnade.data.datasets import DATASETS

    return DATASETS
