"""How fast is the wire? Round trips through our Channel, next to a bare grpc.aio echo under the same mutual TLS.

    python bench/wire.py            # 1 KiB, 1 MiB, 64 MiB
    python bench/wire.py --quick    # fewer rounds
    python bench/wire.py --json     # for machines

Each side of each pair is a process of its own. Ours and the bare echo take turns within one run, so that whatever else
the machine does hits both; and there are several pairs of each, because no two processes lie in memory alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
COUNTS = {"1 KiB": 100, "1 MiB": 30, "64 MiB": 2}  # round trips in one turn
TURNS, PAIRS, QUICK_PAIRS = 3, 6, 2
GOAL_RATIO, GOAL_MEMORY = 1.3, 3.0


def kits(folder: Path) -> None:
    from colonnade.wire.authority import Authority, make_kit

    authority = Authority.open(folder / "ca")
    for party in ("client", "server"):
        make_kit(authority, party, folder / party)


def channel(folder: Path, name: str, port: int | None):
    from colonnade.wire.deadline import Deadline
    from colonnade.wire.network import NetworkChannel
    from colonnade.wire.preflight import Peer
    from colonnade.wire.tls import Credentials

    other = "client" if name == "server" else "server"
    return NetworkChannel(
        name,
        {other: Peer(f"127.0.0.1:{port}" if port else None)},
        "bench",
        Credentials.in_folder(folder / name),
        order=("server", "client"),
        listen=None if port else "127.0.0.1:0",
        deadline=Deadline(connect=60, reply=120, heartbeat=30),
    )


def serve_ours(folder: Path) -> None:
    wire = channel(folder, "server", None)
    print(wire.port, flush=True)
    step = 0
    while True:
        message = wire.recv("client", "ping", step)
        if message.meta.get("end"):
            break
        wire.send("client", "pong", step, message.tensors if not message.meta.get("short") else None)
        step += 1
    wire.close()


def client_ours(folder: Path, port: int) -> None:
    wire, step = channel(folder, "client", port), 0
    for line in sys.stdin:
        size, count = map(int, line.split())
        tensor = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        times = []
        for _ in range(count):
            start = time.perf_counter()
            wire.send("server", "ping", step, {"tensor": tensor})
            answer = wire.recv("server", "pong", step).tensors["tensor"]
            times.append(time.perf_counter() - start)
            step += 1
        assert np.array_equal(answer, tensor)
        print(json.dumps(times), flush=True)
    wire.send("server", "ping", step, meta={"end": True})
    wire.close()


def client_memory(folder: Path, port: int) -> None:
    """Print the peak memory that sending one tensor of 64 MiB takes, the tensor included, as a multiple of its size."""
    wire, size = channel(folder, "client", port), SIZES["64 MiB"]
    wire.send("server", "ping", 0, meta={"short": True})
    wire.recv("server", "pong", 0)
    before = peak(reset=True)
    tensor = np.full(size, 7, dtype=np.uint8)
    wire.send("server", "ping", 1, {"tensor": tensor}, meta={"short": True})
    wire.recv("server", "pong", 1)
    print((peak() - before) / size, flush=True)
    wire.send("server", "ping", 2, meta={"end": True})
    wire.close()


def peak(reset: bool = False) -> int:
    """Return the highest resident size so far in bytes (Linux); with `reset` forget the past first."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


BARE_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


async def serve_bare(folder: Path) -> None:
    import grpc

    async def echo(_, context) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            await context.write(data)

    kit = folder / "server"
    pair = ((kit / "key.pem").read_bytes(), (kit / "certificate.pem").read_bytes())
    credentials = grpc.ssl_server_credentials([pair], (kit / "ca.pem").read_bytes(), require_client_auth=True)
    server = grpc.aio.server(options=BARE_OPTIONS)
    handler = grpc.stream_stream_rpc_method_handler(echo)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bare.Echo", {"Talk": handler})])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def client_bare(folder: Path, port: int) -> None:
    import grpc

    ca, certificate, key = ((folder / "client" / f"{n}.pem").read_bytes() for n in ("ca", "certificate", "key"))
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [*BARE_OPTIONS, ("grpc.ssl_target_name_override", "server.colonnade")]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as line:
        call = line.stream_stream("/bare.Echo/Talk")()
        while command := await asyncio.to_thread(sys.stdin.readline):
            size, count = map(int, command.split())
            data, times = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes(), []
            for _ in range(count):
                start = time.perf_counter()
                await call.write(data)
                answer = await call.read()
                times.append(time.perf_counter() - start)
            assert answer == data
            print(json.dumps(times), flush=True)
        await call.done_writing()


class Pair:
    """Two processes that talk; this one tells the client what to measure."""

    def __init__(self, kind: str, folder: Path, client: str | None = None) -> None:
        self.server = self._start([f"serve-{kind}", str(folder)])
        port = self.server.stdout.readline().strip()
        self.client = self._start([client or f"client-{kind}", str(folder), port])

    def _start(self, arguments: list[str]) -> subprocess.Popen:
        command = [sys.executable, __file__, "--as", *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, size: int, count: int) -> list[float]:
        self.client.stdin.write(f"{size} {count}\n")
        self.client.stdin.flush()
        return json.loads(self.client.stdout.readline())

    def end(self) -> None:
        self.client.stdin.close()
        self.client.wait(60)
        self.server.kill()
        self.server.wait()


def bench(quick: bool) -> dict:
    times: dict = {label: {"ours": [], "bare": []} for label in SIZES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kits(folder)
        for _ in range(QUICK_PAIRS if quick else PAIRS):
            pairs = {kind: Pair(kind, folder) for kind in ("ours", "bare")}
            for label, size in SIZES.items():
                for pair in pairs.values():
                    pair.measure(size, 3)
                for _ in range(TURNS):
                    for kind, pair in pairs.items():
                        times[label][kind] += pair.measure(size, COUNTS[label])
            for pair in pairs.values():
                pair.end()
        memory = Pair("ours", folder, client="client-memory")
        multiple = float(memory.client.stdout.readline())
        memory.end()
    return {
        "round_trip": {label: summary(SIZES[label], found) for label, found in times.items()},
        "sender_memory_64_mib": multiple,
        "goals": {"ratio_1_mib": GOAL_RATIO, "sender_memory": GOAL_MEMORY},
    }


def summary(size: int, times: dict) -> dict:
    ours, bare = statistics.median(times["ours"]), statistics.median(times["bare"])
    return {
        "ours_ms": ours * 1e3,
        "bare_ms": bare * 1e3,
        "ratio": ours / bare,
        "ours_mb_per_s": 2 * size / ours / 1e6,
        "bare_mb_per_s": 2 * size / bare / 1e6,
        "round_trips": len(times["ours"]),
    }


def show(result: dict) -> None:
    print("round trip over mutual TLS on loopback, two processes; median\n")
    print(f"{'tensor':>8} {'Channel':>12} {'bare echo':>12} {'ratio':>7} {'Channel':>12} {'bare echo':>12}")
    for label, row in result["round_trip"].items():
        print(
            f"{label:>8} {row['ours_ms']:>9.2f} ms {row['bare_ms']:>9.2f} ms {row['ratio']:>7.2f}"
            f" {row['ours_mb_per_s']:>7.1f} MB/s {row['bare_mb_per_s']:>7.1f} MB/s"
        )
    print(f"\npeak memory of the sender for one 64 MiB tensor, itself included: {result['sender_memory_64_mib']:.2f} x")
    print(f"goals: ratio at 1 MiB <= {GOAL_RATIO}, memory <= {GOAL_MEMORY:g} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--as", dest="part", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part, folder, *port = arguments.part
        ports = map(int, port)
        {
            "serve-ours": lambda: serve_ours(Path(folder)),
            "serve-bare": lambda: asyncio.run(serve_bare(Path(folder))),
            "client-ours": lambda: client_ours(Path(folder), *ports),
            "client-bare": lambda: asyncio.run(client_bare(Path(folder), *ports)),
            "client-memory": lambda: client_memory(Path(folder), *ports),
        }[part]()
        return
    result = bench(arguments.quick)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
