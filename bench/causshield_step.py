"""Time of one training step with CausShield, as a ratio to the undefended one.

    python bench/causshield_step.py --device cuda --precision mixed
    python bench/causshield_step.py --device cuda --precision mixed --cuda-graph

Two parties hold halves of 3x32x32 images, cut at the sixth module of ResNet-18; a third has the top. `party` is one
party's own work (bottom forward, defense, bottom backward), `whole` adds the other party and the top model, which is
what a training run takes. Pixels are random: time does not depend on them. On a CPU it is processor time, added up over
cores, which other work on the machine does not disturb.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from colonnade.defend import NoDefense
from colonnade.defend.base import Defense
from colonnade.defend.causshield import CausShield
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom
from colonnade.learn.optimize import precision
from colonnade.nets import build_bottom, build_top, upload_shape

STRIP = (3, 32, 16)
SGD = OptimizerSettings(name="sgd", learning_rate=0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="float32", choices=["float32", "mixed"])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 3, 5, 10, 20, 30])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--cut", type=int, default=6)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--route", default="straight")
    parser.add_argument("--surrogate", default="lab")
    parser.add_argument("--mask-source", default="masker")
    parser.add_argument("--faithful", action="store_true")
    parser.add_argument("--cuda-graph", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    defenses: dict[str, Callable[[], Defense]] = {"undefended": NoDefense}
    for rounds in arguments.rounds:
        defenses[f"M = {rounds}"] = lambda rounds=rounds: shield(rounds, arguments)  # type: ignore[misc]
    rows = [{"defense": name, **timed(make, arguments)} for name, make in defenses.items()]
    for row in rows:
        row |= {f"{part}_ratio": row[f"{part}_ms"] / rows[0][f"{part}_ms"] for part in ("party", "whole")}
    if arguments.json:
        print(json.dumps({"arguments": vars(arguments), "rows": rows}, indent=1))
        return
    where = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else f"{torch.get_num_threads()} cores"
    print(f"{where}, {arguments.precision}, batch {arguments.batch}, cut {arguments.cut}, share {arguments.share}")
    for row in rows:
        print(
            f"  {row['defense']:<11} party {row['party_ms']:9.2f} ms {row['party_ratio']:6.2f} x"
            f"   whole {row['whole_ms']:9.2f} ms {row['whole_ratio']:6.2f} x"
        )


def shield(rounds: int, arguments: argparse.Namespace) -> CausShield:
    return CausShield(
        rounds=rounds,
        route=arguments.route,
        share=arguments.share,
        surrogate=arguments.surrogate,
        surrogate_epochs=1,
        mask_source=arguments.mask_source,
        faithful=arguments.faithful,
        cuda_graph=arguments.cuda_graph,
    )


def timed(make: Callable[[], Defense], arguments: argparse.Namespace) -> dict[str, float]:
    device = torch.device(arguments.device)
    parties = [party(make(), seed, arguments) for seed in range(2)]
    shape = upload_shape(parties[0].network, STRIP)
    top = build_top("resnet18", [shape, shape], 10, cut=arguments.cut, seed=9).to(device)
    optimizer = torch.optim.SGD(top.parameters(), lr=0.05, momentum=0.9, fused=True)
    labels = torch.randint(10, (arguments.batch,), device=device)
    rows = torch.arange(arguments.batch)
    gradient = torch.randn(arguments.batch, *shape, device=device) * 1e-3

    def one_party() -> None:
        parties[0].upload(rows, train=True)
        parties[0].learn(gradient, 0.0)

    def whole() -> None:
        uploads = [bottom.upload(rows, train=True).requires_grad_() for bottom in parties]
        optimizer.zero_grad()
        with precision(device, arguments.precision == "mixed"):
            loss = torch.nn.functional.cross_entropy(top(uploads).float(), labels)
        loss.backward()
        optimizer.step()
        for bottom, upload in zip(parties, uploads, strict=True):
            bottom.learn(upload.grad, 0.0)

    return {"party_ms": median_ms(one_party, arguments), "whole_ms": median_ms(whole, arguments)}


def party(defense: Defense, seed: int, arguments: argparse.Namespace) -> Bottom:
    device = torch.device(arguments.device)
    pixels = torch.rand(arguments.batch, *STRIP, generator=torch.Generator().manual_seed(seed))
    defense.seed(seed, device)
    network = defense.extend(build_bottom("resnet18", STRIP, cut=arguments.cut, seed=seed), STRIP)
    bottom = Bottom(network, pixels, defense, settings=SGD, device=device, mixed=arguments.precision == "mixed")
    defense.prepare(bottom.network, bottom.features)
    return bottom


def median_ms(work: Callable[[], None], arguments: argparse.Namespace) -> float:
    def now() -> float:
        if arguments.device == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    times = []
    for repeat in range(arguments.repeats + 2):
        started = now()
        work()
        if repeat >= 2:  # the first ones choose algorithms and fill caches
            times.append(1e3 * (now() - started))
    return statistics.median(times)


if __name__ == "__main__":
    main()
