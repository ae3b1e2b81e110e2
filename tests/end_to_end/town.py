"""A small town of real parties: files on disk, keys, and one process per party over mutual TLS on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from colonnade.learn.agreement import SIMULATION_SECRET
from colonnade.wire.authority import Authority, make_kit

SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(
    ["colonnade.learn.join", "colonnade.learn.answer", "colonnade.discover.join", "colonnade.wire.network"]
)

COLUMNS = {
    "clinic": ["age", "pressure"],
    "lab": ["glucose", "insulin"],
    "insurer": ["claims", "city"],
    "gym": ["visits"],
    "bank": ["income"],
}


def records(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    names = [name for columns in COLUMNS.values() for name in columns]
    table = pd.DataFrame({name: rng.normal(size=count) for name in names}, index=[f"p{i:04d}" for i in range(count)])
    table["city"] = rng.choice(["north", "south"], count)
    numeric = table.drop(columns="city")
    table["outcome"] = np.where(numeric.sum(axis=1) + rng.normal(0, 0.3, count) > 0, "ill", "well")
    return table


class Hosts:
    """Parties as processes, with their keys and files in one folder.

    All have the secret of a simulation, so that two runs, and one in one process, can be compared; those of a `Hosts`
    with `own_secrets` draw their own, as anybody's do.
    """

    command, run_name, own_secrets = "join", "town", False

    def __init__(self, folder: Path, parties: list[str], threads: int | None = 1) -> None:
        self.folder, self.parties, self.threads = folder, parties, threads
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = dict(zip(parties, free_ports(len(parties)), strict=True))
        self.processes: dict[str, ForkServerProcess] = {}
        self._write_keys()

    def start(
        self, party: str, *arguments: str, command: str | None = None, federation: str = "federation.yaml"
    ) -> None:
        """Start one party's process. It is a fork of a server that has imported torch already: quick, and as mortal."""
        file = str(self.folder / f"{party}.yaml")
        line = [command or self.command, str(self.folder / federation), "--party", file, *arguments]
        process = SPAWN.Process(
            target=_live,
            args=(line, str(self.folder / f"{party}.log"), str(self.folder), self.threads, self.own_secrets),
        )
        process.start()
        self.processes[party] = process

    def start_all(self, *arguments: str, command: str | None = None) -> None:
        for party in self.parties:
            self.start(party, *arguments, command=command)

    def wait(self, patience: float = 120.0) -> dict[str, int]:
        """Wait for all processes; return their exit codes. A process that hangs fails the test."""
        end = time.monotonic() + patience
        codes = {}
        for party, process in self.processes.items():
            process.join(max(0.1, end - time.monotonic()))
            if process.exitcode is None:
                self.kill_all()
                raise AssertionError(f"{party} hangs; its log:\n{self.log(party)}")
            codes[party] = process.exitcode
        return codes

    def kill(self, party: str) -> bool:
        """Kill a party as a power cut would; return whether it was still alive."""
        process = self.processes[party]
        process.kill()
        process.join()
        return process.exitcode == -signal.SIGKILL

    def kill_after(self, party: str, messages: int) -> bool:
        """Kill a party once it has sent so many more messages; return whether it was still alive."""
        self.wait_for_messages(party, self.sent_messages(party) + messages)
        return self.kill(party)

    def kill_all(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()

    def log(self, party: str) -> str:
        return (self.folder / f"{party}.log").read_text()

    def run_folder(self, party: str) -> Path:
        return self.folder / "runs" / party / self.run_name

    def sent_messages(self, party: str) -> int:
        """How many messages have left `party` so far in its run, by its ledger."""
        ledger = self.run_folder(party) / "ledger.jsonl"
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0

    def wait_for_messages(self, party: str, count: int, patience: float = 60.0) -> None:
        """Wait until `count` messages have left `party`, or its process has ended."""
        end = time.monotonic() + patience
        while self.sent_messages(party) < count and self.processes[party].is_alive():
            assert time.monotonic() < end, f"{party} sends nothing; its log:\n{self.log(party)}"
            time.sleep(0.005)

    def wait_for_checkpoint(self, party: str, patience: float = 60.0) -> None:
        """Wait until `party` has written a checkpoint, or its process has ended."""
        end = time.monotonic() + patience
        while not any(self.run_folder(party).glob("checkpoints/step-*.safetensors")):
            assert self.processes[party].is_alive() and time.monotonic() < end, self.log(party)
            time.sleep(0.005)

    def write_yaml(self, name: str, content: dict[str, object]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def entry(self, party: str) -> dict[str, object]:
        """How the federation file says that `party` is reached and recognised."""
        return {"address": f"127.0.0.1:{self.ports[party]}", "fingerprint": self.fingerprints[party]}

    def own_file(self, party: str) -> dict[str, object]:
        """What every party's own file holds, but for its data."""
        files = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "key.pem"}
        keys = {name: str(Path("keys") / party / file) for name, file in files.items()}
        return {"party": party, "runs": f"runs/{party}", "device": "cpu", "credentials": keys}

    def _write_keys(self) -> None:
        authority = Authority.open(self.folder / "keys" / "ca")
        self.fingerprints = {party: make_kit(authority, party, self.folder / "keys" / party) for party in self.parties}


class Town(Hosts):
    """A federation that trains: its files in one folder, and its parties as processes."""

    def __init__(
        self,
        folder: Path,
        parties: int = 3,
        count: int = 240,
        heartbeat: float = 2.0,
        threads: int | None = 1,
        **task: object,
    ) -> None:
        super().__init__(folder, list(COLUMNS)[:parties], threads)
        self.table = records(count)
        self._write_files(heartbeat, task)

    def write_table(self, party: str, table: pd.DataFrame, name: str, labelled: bool = True) -> Path:
        columns = COLUMNS[party] + (["outcome"] if party == "clinic" and labelled else [])
        path = self.folder / name
        table[columns].to_csv(path, index_label="id")
        return path

    def weights(self) -> dict[str, bytes]:
        return {party: (self.run_folder(party) / "model" / "part.safetensors").read_bytes() for party in self.parties}

    def _write_files(self, heartbeat: float, task: dict[str, object]) -> None:
        federation = {
            "name": "town", "parties": {party: self.entry(party) for party in self.parties}, "active": "clinic",
            "label": "outcome", "heartbeat": heartbeat,
            "task": {"epochs": 4, "batch_size": 24, "checkpoint_every": 5, **task},
        }  # fmt: skip
        self.write_yaml("federation.yaml", federation)
        for party in self.parties:
            self.write_table(party, self.table, f"{party}.csv")
            data = {"path": f"{party}.csv", "id_column": "id"}
            self.write_yaml(f"{party}.yaml", {**self.own_file(party), "data": data})


def free_ports(count: int) -> list[int]:
    """Return different ports: one that is let go may be drawn again at once."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _live(line: list[str], log: str, folder: str, threads: int | None, own_secrets: bool) -> None:
    """A party's process: the command line itself, with its output in a file."""
    import torch

    from colonnade.cli import main
    from colonnade.run import Run

    if not own_secrets:
        Run.secret = SIMULATION_SECRET
    if threads is not None:
        torch.set_num_threads(threads)
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["colonnade", *line]
    main()
