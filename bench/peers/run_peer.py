"""Run one published method on one data set, in the environment of `bench/peers/requirements.txt`.

    python run_peer.py METHOD INPUT.npz OUTPUT.npz --seed 0 --schedule short|full

INPUT holds `X`, records × variables. OUTPUT gets `directed` and `undirected` (bool matrices, [cause, effect]) and
`seconds`, the time of the method alone: importing it does not count. Nothing here knows the true graph.
"""

import argparse
import logging
import os
import sys
import time
import warnings

os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("CASTLE_BACKEND", "pytorch")
warnings.filterwarnings("ignore")
logging.disable(logging.INFO)

import numpy as np  # noqa: E402

STRENGTH = 0.3  # DAGMA's and NO-TEARS' own threshold
MLP_STRENGTH = 0.1  # for DAGMA's nonlinear variant; the package's own is .3
GES_QUICK = 15  # variables up to which GES takes seconds whatever it finds
GES_PARENTS = 6  # of a variable at most, in the short schedule beyond that


def sdcd(X, seed, short):
    """Two stages with the package's own settings; it fixes its own seed, so `seed` changes nothing."""
    import pandas as pd
    from sdcd.models import SDCD
    from sdcd.utils import create_intervention_dataset

    def fit():
        frame = pd.DataFrame(X, columns=[str(i) for i in range(X.shape[1])])
        frame["perturbation_label"] = "obs"
        dataset = create_intervention_dataset(frame, perturbation_colname="perturbation_label")
        model = SDCD(model_variance_flavor="nn")
        model.train(dataset, log_wandb=False, verbose=False)
        return model.get_adjacency_matrix(threshold=True) != 0

    return fit


def dagma_linear(X, seed, short):
    from dagma.linear import DagmaLinear

    return lambda: DagmaLinear(loss_type="l2").fit(X, lambda1=0.02, w_threshold=STRENGTH) != 0


def dagma_mlp(X, seed, short):
    import torch
    from dagma.nonlinear import DagmaMLP, DagmaNonlinear

    def fit():
        torch.manual_seed(seed)
        model = DagmaNonlinear(DagmaMLP(dims=[X.shape[1], 10, 1], bias=True, dtype=torch.double), dtype=torch.double)
        schedule = {"warm_iter": 1_500, "max_iter": 3_000, "lr": 2e-3} if short else {}
        return model.fit(X, lambda1=0.02, lambda2=0.005, w_threshold=MLP_STRENGTH, **schedule) != 0

    return fit


def notears_linear(X, seed, short):
    from castle.algorithms import Notears

    def fit():
        model = Notears(lambda1=0.005, w_threshold=STRENGTH, max_iter=20 if short else 100)
        model.learn(X)
        return np.asarray(model.causal_matrix) != 0

    return fit


def sortnregress(X, seed, short):
    from CausalDisco.baselines import var_sort_regress

    return lambda: var_sort_regress(X) != 0


def r2_sortnregress(X, seed, short):
    """Sorted *down* by R², because in the synthetic sets (R²-sortability .17 to .43) that is the causal order."""
    from CausalDisco.analytics import r2coeff
    from CausalDisco.baselines import sort_regress

    return lambda: sort_regress(X, -r2coeff(X.T)) != 0


def pc(X, seed, short):
    from causallearn.search.ConstraintBased.PC import pc as search

    return lambda: marks(search(X, alpha=0.05, indep_test="fisherz", show_progress=False).G.graph)


def ges(X, seed, short):
    """Greedy search by BIC; dense graphs of 25 variables take a quarter of an hour unless parents are few."""
    from causallearn.search.ScoreBased.GES import ges as search

    most = GES_PARENTS if short and X.shape[1] > GES_QUICK else None
    return lambda: marks(search(X, score_func="local_score_BIC", maxP=most)["G"].graph)


def marks(graph):
    """causal-learn's end marks: [j, i] = 1 and [i, j] = -1 for i → j, both -1 for i – j, both 1 for i ↔ j."""
    directed = (graph.T == 1) & (graph == -1)
    undirected = ((graph == -1) & (graph.T == -1)) | ((graph == 1) & (graph.T == 1))
    return directed, undirected


METHODS = {
    function.__name__: function
    for function in (
        sdcd, dagma_linear, dagma_mlp, notears_linear, sortnregress, r2_sortnregress, pc, ges,
    )
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schedule", choices=("short", "full"), default="full")
    given = parser.parse_args()
    np.random.seed(given.seed)
    X = np.load(given.source, allow_pickle=False)["X"].astype(np.float64)
    fit = METHODS[given.method](X, given.seed, given.schedule == "short")
    started = time.perf_counter()
    found = fit()
    seconds = time.perf_counter() - started
    directed, undirected = found if isinstance(found, tuple) else (found, np.zeros_like(found))
    np.savez(given.target, directed=directed, undirected=undirected, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
