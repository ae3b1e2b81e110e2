"""If these fail, a defense from somebody else's package is not found, can't be trained with, or misses in audits."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "rounding_defense"
PAGE = ROOT / "docs" / "howto" / "add-a-defense.md"

USE = """
import json, sys
import colonnade as co
from colonnade.audit.matrix import run_matrix

assert "rounding_defense" not in sys.modules
listed = list(co.defenses())
data = co.load_dataset("breast_cancer")
frame = data.table.assign(benign=data.label)
parties = {"clinic": list(data.table.columns[:10]), "lab": list(data.table.columns[10:])}
federation = co.Federation.from_frame(frame, parties, label=("clinic", "benign"))
rounding = {"name": "rounding", "step": 0.25}
model = co.train(federation, rounding, seed=0, epochs=3, batch_size=32, progress=False)
uploads = model.uploads(frame)["lab"]
found = run_matrix(federation, ["none", rounding], ["ridge"], out=sys.argv[1], seeds=1, progress=False)
rows = found.frame[found.frame["attack"] == "ridge"]
print(json.dumps({
    "listed": listed,
    "steps": sorted(set(((uploads / 0.25) % 1).flatten().tolist())),
    "distinct": len(set(uploads.flatten().tolist())),
    "accuracy": model.scores["accuracy"],
    "rows": rows[["defense", "strength", "mse", "seeds"]].values.tolist(),
    "left_out": found.settings["left_out"],
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that pip installed the example into."""
    # Building leaves traces beside the sources, so a copy is built.
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "package")
    target = tmp_path_factory.mktemp("target")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True, capture_output=True, text=True)
    return target


@pytest.mark.slow
def test_an_installed_defense_is_listed_trained_with_and_audited(installed, tmp_path):
    paths = [str(installed), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path / "matrix")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert "rounding" in told["listed"] and "none" in told["listed"]
    assert told["steps"] == [0.0] and told["distinct"] > 1
    assert told["accuracy"] > 0.8
    assert told["left_out"] == []
    assert [(defense, strength, seeds) for defense, strength, _, seeds in told["rows"]][1] == ("rounding", 0.25, 1)
    (_, _, open_error, _), (_, _, rounded_error, _) = told["rows"]
    assert rounded_error != open_error


def test_the_example_is_what_the_page_shows():
    first, second = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    code = (EXAMPLE / "rounding_defense.py").read_text()
    assert code.partition("\n\n")[2] == first.partition("\n")[2]
    project, page = tomllib.loads((EXAMPLE / "pyproject.toml").read_text()), tomllib.loads(second)
    assert page["project"].items() <= project["project"].items()
    assert page["tool"] == project["tool"]
