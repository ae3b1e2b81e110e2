"""`colonnade audit attributes` from files: if these fail, a party's `sensitive` columns are named but never tried."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from typed import colonnade, succeed

from colonnade.audit.attribute_result import AttributeResult

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))
from audit_parts import PARTIES, SETTINGS, table

QUICK = ("--attackers", "linear", "--seeds", "1")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three parties' files; the lab names a sensitive column that is no feature."""
    folder = tmp_path_factory.mktemp("study")
    frame = table(500).rename_axis("patient")
    frame["sex"] = np.where(frame["glucose"] > 5.2, "f", "m")
    parties = {name: {"address": f"127.0.0.1:{7101 + place}"} for place, name in enumerate(PARTIES)}
    task = {**SETTINGS, "network": {"family": "mlp", "hidden": [8, 8]}}
    federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties, "task": task}
    (folder / "federation.yaml").write_text(yaml.safe_dump(federation))
    extra = {"clinic": ["outcome"], "lab": ["sex"]}
    for name, columns in PARTIES.items():
        frame[[*columns, *extra.get(name, [])]].to_csv(folder / f"{name}.csv")
        described = {"party": name, "data": {"path": f"{name}.csv", "id_column": "patient"}, "runs": "runs"}
        described |= {"sensitive": ["sex"]} if name == "lab" else {}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(described))
    succeed("train", folder / "federation.yaml", *party_files(folder), "--run", folder / "runs")
    return folder


def party_files(folder, *names):
    return [word for name in names or PARTIES for word in ("--party", folder / f"{name}.yaml")]


def files(folder, *names):
    return ["--federation", folder / "federation.yaml", *party_files(folder, *names)]


def test_sensitive_columns_are_attacked_and_the_tables_kept(study, tmp_path):
    printed = succeed("audit", "attributes", study / "runs", *files(study), *QUICK, "--out", tmp_path / "out")
    assert "lab's uploads tell sex of" in printed
    kept = AttributeResult.load(tmp_path / "out").to_frame()
    assert set(kept["client"]) == {"lab", "all"} and set(kept["dataset"]) == {"study"}
    assert (kept["leak"] > kept["majority"] + 0.1).all()


def test_one_party_tries_its_own_secrets_with_its_own_files(study):
    lines = succeed("audit", "attributes", study / "runs" / "lab", *files(study, "lab"), *QUICK, "--json").splitlines()
    told = json.loads(lines[-1])
    assert told["event"] == "result"
    assert [(one["client"], one["secret"], one["attacker"]) for one in told["rows"]] == [("lab", "sex", "linear")]
    whole = succeed("audit", "attributes", study / "runs", *files(study), *QUICK, "--json").splitlines()
    assert json.loads(whole[-1])["rows"][0]["leak"] == told["rows"][0]["leak"]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--attackers", "linaer"], 3, "unknown attribute attacker 'linaer'"),
        (["--attackers", "conv"], 3, "conv can't read uploads"),
        (["--auxiliary", "1.5"], 3, "1.5 is no share"),
    ],
)
def test_a_mistake_is_one_line(study, words, code, complaint):
    result = colonnade("audit", "attributes", study / "runs", *files(study), *QUICK, *words)
    assert result.exit_code == code, result.output
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_sensitive_columns_there_is_nothing_to_guess(study):
    result = colonnade("audit", "attributes", study / "runs" / "insurer", *files(study, "insurer"), *QUICK)
    assert result.exit_code == 3
    assert "no audited party has a secret" in result.stderr
