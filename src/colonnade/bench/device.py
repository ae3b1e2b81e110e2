"""What a result was measured on, and how much memory it took."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

_PROCESS = Path("/proc/self")


def python_version() -> str:
    """Return Python's version."""
    return platform.python_version()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_device() -> dict[str, Any]:
    """Return processor, cores, the limit on threads, memory, system, and the accelerator, if there is one."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "accelerator": _accelerator(),
    }


def forget_peak_memory() -> None:
    """Start `peak_memory` afresh, where the system allows it."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the most bytes this process held since `forget_peak_memory`, plus the most each living child ever held."""
    try:
        return _peak_of(os.getpid()) + sum(_peak_of(child) for child in _children())
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_of(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def _children() -> list[int]:
    return [int(child) for task in _PROCESS.glob("task/*/children") for child in task.read_text().split()]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _accelerator() -> str | None:
    import torch  # here, because it takes a second: other processes may have done the bench's work

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
