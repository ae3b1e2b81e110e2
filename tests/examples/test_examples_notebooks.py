"""If these fail, a notebook that people open first stops with an error, or claims what its own numbers do not show."""

import re
from pathlib import Path

import nbformat
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def executed(name, folder, monkeypatch):
    """Run a notebook as a reader would, in an empty folder; return what it printed."""
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_both_notebooks_are_there():
    assert {path.name for path in NOTEBOOKS} == {"causal_graph.ipynb", "first_federation.ipynb"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(path):
    """Outputs would grow old unseen, and may hold the records of whoever ran it last."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
def test_the_first_federation_trains_audits_and_reports(tmp_path, monkeypatch):
    printed = executed("first_federation.ipynb", tmp_path, monkeypatch)
    accuracy, guessing = map(float, re.search(r"accuracy (\S+), guessing (\S+),", printed).groups())
    assert accuracy > guessing + 0.1
    assert "ridge" in printed and "per-record mean" in printed
    page = (tmp_path / "first_federation" / "report.html").read_text()
    assert "gaussian" in page and "imaging" in page


@pytest.mark.slow
def test_the_causal_graph_comes_back(tmp_path, monkeypatch):
    printed = executed("causal_graph.ipynb", tmp_path, monkeypatch)
    assert "missed: []  invented: []" in printed
    assert "['age', 'pressure', 'glucose', 'claims']" in printed
    assert (tmp_path / "graph.json").is_file()
