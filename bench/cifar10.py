"""CIFAR-10 halves, two passive parties and a label-only active one: undefended accuracy and its training time.

    python bench/cifar10.py --data FOLDER --device cuda

FOLDER holds CIFAR-10 in any form that `co.load_dataset("cifar10", FOLDER)` reads.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import time
from pathlib import Path

import numpy as np
import torch

import colonnade as co


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--cut", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", default="mixed", choices=["float32", "mixed"])
    parser.add_argument("--out", help="write the rows as JSON here")
    arguments = parser.parse_args()
    data = co.load_dataset("cifar10", arguments.data)
    majority = float(data.label[data.split == "test"].value_counts(normalize=True).iloc[0])
    rows = [run(data, arguments, seed) for seed in range(arguments.seeds)]
    accuracies = [row["accuracy"] for row in rows]
    print(f"always guessing the commonest class: {majority:.3f}")
    print(f"mean accuracy over {len(rows)} seeds: {np.mean(accuracies):.4f} ± {np.std(accuracies):.4f}")
    if arguments.out:
        versions = {"python": platform.python_version(), "torch": torch.__version__, "colonnade": co.__version__}
        result = {
            "bench": "cifar10",
            "preset": "default",
            "command": _command(arguments),
            "versions": versions,
            "device": rows[0]["device"],
            "majority": majority,
            "rows": rows,
        }
        Path(arguments.out).write_text(json.dumps(result, indent=1))


def _command(arguments: argparse.Namespace) -> str:
    """Return what repeats this: with the names of files and folders, which lie elsewhere on another machine."""
    given = {name: value for name, value in vars(arguments).items() if name not in ("data", "out")}
    options = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    return shlex.join(["python", "bench/cifar10.py", "--data", "FOLDER", *options, "--out", Path(arguments.out).name])


def run(data: co.Dataset, arguments: argparse.Namespace, seed: int) -> dict[str, object]:
    federation = co.Federation.from_images(data.images, data.label, ["left", "right"], split=data.split)
    task = co.Task.model_validate(
        {
            "kind": "multiclass",
            "epochs": arguments.epochs,
            "batch_size": 128,
            "precision": arguments.precision,
            "network": {"family": "resnet18", "cut": arguments.cut},
            "optimizer": {
                "name": "sgd", "learning_rate": 0.05, "weight_decay": 5e-4, "schedule": "cosine", "warmup": 1,
            },
            "split": {"train": 0.95, "validation": 0.05, "test": 0.0},
        }
    )  # fmt: skip
    started = time.perf_counter()
    model = co.train(federation, task=task, seed=seed, device=arguments.device, progress=False)
    seconds = time.perf_counter() - started
    device = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "cpu"
    row = {
        "dataset": "cifar10",
        "records": int((data.split != "test").sum()),
        "cut": arguments.cut,
        "defense": "none",
        "seed": seed,
        "epochs": arguments.epochs,
        "precision": arguments.precision,
        "accuracy": model.scores["accuracy"],
        "seconds": round(seconds, 1),
        "device": device,
    }
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    main()
