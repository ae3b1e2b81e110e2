"""If these fail, the cells of a matrix are lost, mixed up, or computed where nobody asked for it."""

import importlib
import re
import socket
import subprocess
import sys
import time
import types
from fnmatch import fnmatch
from pathlib import Path

import pytest

from colonnade.audit import engine
from colonnade.audit.engine import local_crew, make_engine, ray_crew
from colonnade.errors import ConfigError


def multiply(shared, job):
    return shared["factor"] * job


def everything(open_crew, jobs):
    with open_crew({"factor": 3}) as crew:
        return dict(crew(multiply, jobs)), dict(crew(multiply, [])), dict(crew(multiply, jobs[:1]))


def test_in_this_process_one_after_the_other():
    seen = []
    with local_crew(None) as crew:
        for place, outcome in crew(lambda shared, job: seen.append(job) or -job, [5, 6]):
            assert (place, outcome) == (len(seen) - 1, -seen[-1]), "each is handed over before the next begins"
    assert seen == [5, 6]


@pytest.mark.slow
def test_in_several_processes():
    assert everything(lambda shared: local_crew(shared, 2), [1, 2, 3]) == ({0: 3, 1: 6, 2: 9}, {}, {0: 3})


SLEEPERS = """
import os, sys, time
from pathlib import Path

from colonnade.audit.engine import local_crew


def sleep(folder, job):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(300)


if __name__ == "__main__":
    with local_crew(sys.argv[1], jobs=2) as crew:
        list(crew(sleep, [1, 2]))
"""


@pytest.mark.slow
def test_a_kill_takes_the_processes_along(tmp_path):
    """Cores would be busy for hours with results that nobody takes, and the next run would be slow."""
    (tmp_path / "sleepers.py").write_text(SLEEPERS)
    (tmp_path / "seen").mkdir()
    parent = subprocess.Popen([sys.executable, tmp_path / "sleepers.py", tmp_path / "seen"])
    wait_for(lambda: len(list((tmp_path / "seen").iterdir())) == 2)
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(is_running(path.name) for path in (tmp_path / "seen").iterdir()))


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


def is_running(process):
    stat = Path(f"/proc/{process}/stat")
    return stat.is_file() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.slow
def test_an_error_in_a_process_ends_the_work():
    with pytest.raises(TypeError), local_crew({"factor": None}, 2) as crew:
        list(crew(multiply, [1, 2, 3]))


class Cluster(types.ModuleType):
    """What is used of Ray, in this process; tasks end in another order than they began."""

    def __init__(self, running=False):
        super().__init__("ray")
        self.running, self.calls, self.store = running, [], {}

    def is_initialized(self):
        return self.running

    def init(self, **options):
        self.calls.append(("init", options))
        self.running = True

    def shutdown(self):
        self.calls.append(("shutdown", {}))
        self.running = False

    def put(self, value):
        self.calls.append(("put", {}))
        self.store["shared"] = value
        return "shared"

    def remote(self, **options):
        self.calls.append(("remote", options))

        def start(work):
            def submit(shared, job):
                name = f"task {len(self.store)}"
                self.store[name] = work(self.store[shared], job)
                return name

            return types.SimpleNamespace(remote=submit)

        return start

    def wait(self, waiting):
        return waiting[-1:], waiting[:-1]

    def get(self, name):
        return self.store[name]


def test_on_ray_every_job_is_a_task_and_records_travel_once(monkeypatch):
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    chosen = make_engine("ray", jobs=2, device="cuda")
    assert everything(chosen, [1, 2, 3]) == ({0: 3, 1: 6, 2: 9}, {}, {0: 3})
    names = [name for name, _ in cluster.calls]
    assert names.count("put") == names.count("init") == names.count("shutdown") == 1
    asked = dict(cluster.calls)["init"]
    assert (asked["address"], asked["num_cpus"]) == ("local", 2), "a cluster that happens to run here is not asked"
    assert dict(cluster.calls)["remote"] == {"num_gpus": 1}


def test_a_cluster_that_is_there_already_is_used_and_left_running(monkeypatch):
    cluster = Cluster(running=True)
    monkeypatch.setitem(sys.modules, "ray", cluster)
    everything(lambda shared: ray_crew(shared, "ray://head:10001"), [1])
    assert {"init", "shutdown"}.isdisjoint(name for name, _ in cluster.calls)


def test_a_cluster_is_found_at_its_address(monkeypatch):
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
        everything(make_engine("ray", address=address), [1])
    asked = dict(cluster.calls)["init"]
    assert asked["address"] == address
    assert "num_cpus" not in asked, "a cluster has the processors it has"


@pytest.mark.parametrize("trouble", [ConnectionError("Could not find any running Ray instance."), ValueError("format")])
def test_an_address_where_no_cluster_can_be_joined_is_told(monkeypatch, trouble):
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)

    def nobody(**options):
        raise trouble

    monkeypatch.setattr(cluster, "init", nobody)
    with pytest.raises(ConfigError, match=r"address: no Ray cluster can be joined at 'auto' .*ray start --head"):
        everything(make_engine("ray", address="auto"), [1])
    with pytest.raises(type(trouble), match=str(trouble)):  # nobody gave an address: the trouble is another one
        everything(make_engine("ray"), [1])


@pytest.mark.parametrize("address", ["{}:{}", "ray://{}:{}", "[::1]:{1}", "no.such.host.invalid:{1}", "{}:99999"])
def test_an_address_where_nobody_listens_is_told_without_asking_ray(monkeypatch, address):
    """Ray itself tries for two minutes and more, in silence."""
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]  # free again, as soon as nobody listens any more
    named = address.format("127.0.0.1", port)
    with pytest.raises(ConfigError, match=rf"address: no Ray cluster can be joined at '{re.escape(named)}' "):
        everything(make_engine("ray", address=named), [1])
    assert cluster.calls == []


def test_a_host_that_never_answers_is_given_up_within_seconds(monkeypatch):
    """Firewalls drop what they do not like: nobody says no."""
    waited = []

    def silence(address, timeout):
        waited.append((address, timeout))
        raise TimeoutError

    monkeypatch.setitem(sys.modules, "ray", Cluster())
    monkeypatch.setattr(engine.socket, "create_connection", silence)
    with pytest.raises(ConfigError, match=r"no Ray cluster can be joined at 'ray://head:10001'"):
        everything(make_engine("ray", address="ray://head:10001"), [1])
    assert waited == [(("head", 10001), 5)]


def test_the_cluster_is_let_go_after_an_error(monkeypatch):
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    with pytest.raises(TypeError), ray_crew({"factor": None}) as crew:
        list(crew(multiply, [1]))
    assert not cluster.running


@pytest.mark.alone
@pytest.mark.slow
def test_the_real_ray_does_the_same():
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'colonnade[ray]'")
    # A function that Ray's own processes can import: those of a test file they can't.
    with make_engine("ray", jobs=1)("column") as crew:
        assert dict(crew(fnmatch, ["col*", "row*"])) == {0: True, 1: False}


def test_a_gpu_is_asked_for_where_the_work_is_done(monkeypatch):
    """A task on our own cluster would wait for one for ever; and a cluster's GPUs would be no use to a laptop."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "ray", Cluster())
    for name in ("local", "ray"):
        with pytest.raises(ConfigError, match=r"device: no device 'cuda' here .use cpu"):
            make_engine(name, device="cuda")
    make_engine("ray", address="ray://head:10001", device="cuda")
    monkeypatch.setitem(sys.modules, "ray", Cluster(running=True))
    make_engine("ray", device="cuda")


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("lokal", {}, "unknown engine 'lokal' .did you mean 'local'"),
        ("local", {"jobs": 0}, "jobs: 0 is not allowed"),
        ("local", {"address": "auto"}, "an address is for a cluster .choose the engine 'ray'"),
    ],
)
def test_a_wrong_choice_is_told(name, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_engine(name, **options)


def test_without_ray_the_remedy_is_told_before_anything_runs(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(engine, "import_module", missing)
    with pytest.raises(ConfigError, match=r"Ray is not installed .*colonnade\[ray\]"):
        make_engine("ray")
    assert importlib.import_module is not missing
