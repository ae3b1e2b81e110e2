"""What is installed here, and what the machine has."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from colonnade.doctor.finding import Finding
from colonnade.progress import describe_bytes

LEAST_BYTES = 2 * 10**9
"""Free memory, or free disk, under which a run may end early."""

_NAME = re.compile(r"[\w.-]+")
_MEMORY = Path("/proc/meminfo")


def examine_packages() -> Iterator[Finding]:
    """Yield Python, Colonnade and every package that it can't do without."""
    yield Finding("packages", "python", platform.python_version())
    yield Finding("packages", "colonnade", version("colonnade"))
    for name in needed_packages():
        try:
            yield Finding("packages", name, version(name))
        except PackageNotFoundError:
            yield Finding("packages", name, "not installed", state="broken", remedy=f"pip install {name}")


def needed_packages() -> list[str]:
    """Return the names of the packages that Colonnade's own description asks for, extras left out."""
    asked = requires("colonnade") or []
    return [found[0] for line in asked if "extra ==" not in line and (found := _NAME.match(line))]


def examine_machine(device: str = "auto") -> Iterator[Finding]:
    """Yield cores, memory and GPU; `device` is where a party wants its networks to live."""
    yield Finding("machine", "system", f"{platform.system()} {platform.machine()}")
    yield Finding("machine", "cores", _cores())
    yield Finding("machine", "OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "not set: all cores"))
    yield Finding("machine", "memory", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "bytes")
    free = _available_memory()
    if free is not None:
        little = free < LEAST_BYTES
        remedy = "close other programs: training and alignment hold a party's records in memory" if little else ""
        yield Finding("machine", "memory free", free, "bytes", "warning" if little else "ok", remedy)
    yield _gpu(device)


def examine_disk(folder: Path) -> Finding:
    """Tell how much room there is where runs are kept, and whether they can be written at all."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    name = f"disk free at {folder}"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = "name another folder with 'runs:' in the party file"
        return Finding("machine", name, f"{there} cannot be written", state="broken", remedy=remedy)
    free = shutil.disk_usage(there).free
    if free < LEAST_BYTES:
        return Finding("machine", name, free, "bytes", "warning", "checkpoints need room: delete runs you don't need")
    return Finding("machine", name, free, "bytes")


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _available_memory() -> int | None:
    """Return the bytes that programs can still get, None on systems that do not say."""
    try:
        text = _MEMORY.read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _gpu(device: str) -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its shared libraries is not there
        what = f"torch cannot be loaded: {error}".splitlines()[0]
        return Finding("machine", "GPU", what, state="broken", remedy="pip install --force-reinstall torch")
    if torch.cuda.is_available():
        memory = describe_bytes(torch.cuda.get_device_properties(0).total_memory)
        return Finding("machine", "GPU", f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}, {memory}")
    if device.startswith("cuda"):
        remedy = "write 'device: auto' into the party file, or install a torch that knows your GPU"
        return Finding("machine", "GPU", f"none, and the party file asks for {device}", state="broken", remedy=remedy)
    return Finding("machine", "GPU", "none: networks are trained on the processor")
