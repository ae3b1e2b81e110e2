"""How soon can a report be used? Times in Chromium from the navigation on, as the page's own Performance API tells.

    python bench/report_page.py                      # a made-up study, larger than the demo's
    python bench/report_page.py runs/demo-20261115   # the report of a folder
    python bench/report_page.py --json               # for machines

Each time is a browser of its own, with nothing in its cache. "Filter responds" is when moving the slider of the graph
first changes what is shown; between then and "charts drawn" the page may still stall, while the library of the charts
is read. The goal is two seconds, for the filter and for domInteractive.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import colonnade as co
from colonnade.audit.result import AuditResult, Pictures
from colonnade.audit.rows import NUMBERS
from colonnade.report import write_report
from colonnade.run import Run

GOAL = 2000.0
"""Milliseconds until the page can be used."""
PARTIES = ("clinic", "lab", "insurer", "registry")
LABELS = {
    "filterResponds": "filter responds",
    "domInteractive": "domInteractive",
    "load": "load",
    "chartsDrawn": "charts drawn",
}
VARIABLES, EDGES, EPOCHS, PICTURES = 40, 120, 100, 8

# Moves the slider again and again, as an impatient reader would, until the page answers.
PROBE = """
(() => {
  const watch = () => {
    const charts = [...document.querySelectorAll(".chart")];
    if (document.readyState === "complete" && charts.every((chart) => chart.querySelector(".main-svg"))) {
      window.drawnAt = performance.now();
    } else setTimeout(watch, 5);
  };
  watch();
  const probe = () => {
    const slider = document.querySelector(".weakest"), count = document.querySelector(".count");
    if (slider && count) {
      const first = slider.value;
      slider.value = slider.max;
      slider.dispatchEvent(new Event("input"));
      const [left, all] = count.textContent.match(/\\d+/g) ?? [];
      if (Number(left) < Number(all)) {
        window.respondedAt = performance.now();
        slider.value = first;
        slider.dispatchEvent(new Event("input"));
        return;
      }
    }
    setTimeout(probe, 5);
  };
  probe();
})();
"""
NUMBERS_OF_PAGE = """
() => {
  const { domInteractive, loadEventEnd } = performance.getEntriesByType("navigation")[0];
  return { filterResponds: window.respondedAt, domInteractive, load: loadEventEnd, chartsDrawn: window.drawnAt };
}
"""


def made_up(folder: Path) -> Path:
    """Write a study with every kind of section that takes a browser time."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"variable {number}" for number in range(VARIABLES)]
    strength = np.zeros((VARIABLES, VARIABLES))
    causes, effects = np.triu_indices(VARIABLES, 1)
    for place in rng.choice(len(causes), EDGES, replace=False):
        strength[causes[place], effects[place]] = rng.uniform(0.1, 1)
    owners = {name: PARTIES[place % len(PARTIES)] for place, name in enumerate(names)}
    shares = dict.fromkeys(PARTIES, 1 / len(PARTIES))
    co.CausalGraph(pd.DataFrame(strength, names, names), owners, contributions=shares).save(folder / "graph.json")
    history = [
        {"epoch": epoch, "train_loss": 1 / (epoch + 1), "validation_loss": 1.2 / (epoch + 1), "validation_auc": 0.9}
        | {f"weight_{party}": float(rng.uniform()) for party in PARTIES}
        for epoch in range(EPOCHS)
    ]
    for party in PARTIES:
        with Run.create(party, {"party": party, "task": {"kind": "binary"}}, folder / "train") as run:
            run.finish({"history": history, "test": {"auc": 0.9}, "contributions": shares})
    audit(rng).save(folder / "audit")
    return folder


def audit(rng: np.random.Generator) -> AuditResult:
    keys = {"dataset": "", "cut": 2, "defense": "none", "strength": np.nan, "attack": "decoder", "knowledge": "oracle"}
    keys |= {"defense_settings": "{}", "attack_settings": "{}", "model_seed": 0}
    rows = [
        {**keys, "party": party, "seed": seed, **{name: float(rng.uniform()) for name in NUMBERS}}
        for party in PARTIES
        for seed in range(3)
    ]
    shown = rng.uniform(size=(PICTURES, 3, 32, 16)).astype(np.float32)
    pictures = [Pictures({**keys, "party": party}, shown, shown) for party in PARTIES]
    return AuditResult.from_rows(rows, [], pictures, {"candidates": 1000})


def measured(page: Path, times: int) -> list[dict[str, float]]:
    """Open the page so many times; return the milliseconds of each."""
    from playwright.sync_api import sync_playwright

    chromium = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit("no Chromium here: install Debian's 'chromium'")
    found = []
    with sync_playwright() as playwright:
        for _ in range(times):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.add_init_script(PROBE)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_function("window.respondedAt && window.drawnAt")
            found.append(tab.evaluate(NUMBERS_OF_PAGE))
            browser.close()
    return found


def bench(folder: Path | None, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        page = write_report([folder or made_up(Path(scratch) / "study")], Path(scratch) / "report.html")
        rounds = measured(page, times)
        size = page.stat().st_size
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    slowest = {name: max(one[name] for one in rounds) for name in rounds[0]}
    return {"page_bytes": size, "times": times, "median_ms": middle, "slowest_ms": slowest, "goal_ms": GOAL}


def show(result: dict[str, Any]) -> None:
    print(f"a page of {result['page_bytes'] / 1e6:.1f} MB, opened {result['times']} times; milliseconds\n")
    print(f"{'':<16} {'median':>8} {'slowest':>8}")
    for name, label in LABELS.items():
        print(f"{label:<16} {result['median_ms'][name]:>8.0f} {result['slowest_ms'][name]:>8.0f}")
    print(f"\ngoal: filter responds and domInteractive within {GOAL:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a study with a graph; a made-up one if left out")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    result = bench(arguments.folder, arguments.times)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
