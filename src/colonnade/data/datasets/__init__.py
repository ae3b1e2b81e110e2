"""Loaders for published data sets, each reading the format in which its publisher gives it away.

`DATASETS` lists them, `load_dataset` reads one into a `Dataset`. Importing this package reads nothing and imports no
picture or learning library.
"""

from colonnade.data.datasets import (  # noqa: F401 - each import files its loaders in DATASETS
    causal,
    cifar,
    crema_d,
    faces,
    iemocap,
    imagenet,
    mimic3,
    mnist,
    packaged,
    tabular,
)
from colonnade.data.datasets.dataset import Dataset
from colonnade.data.datasets.loader import DATASETS, Loader, Source, dataset, load_dataset

__all__ = ["DATASETS", "Dataset", "Loader", "Source", "dataset", "load_dataset"]
