"""If this fails, a room leans on one above it, and the house can't be changed piece by piece any more."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "colonnade"

# Bottom to top; rooms in one tier may know each other. Single modules are rooms too.
TIERS = [
    {"errors", "registry", "strength", "line_file", "stream"},
    {"measure", "run", "checkpoint", "ledger", "progress"},
    {"data", "federation"},
    {"wire"},
    {"nets", "secure", "align", "place"},
    {"defend"},
    {"learn", "discover"},
    {"attack"},
    {"report", "bench", "audit", "sklearn", "doctor"},
    {"cli"},
]
LEVEL = {room: level for level, tier in enumerate(TIERS) for room in tier}
FORBIDDEN = {("attack", "defend"), ("defend", "attack")}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "colonnade" and len(parts) > 1 else None


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {room for module in found if (room := room_of(module))}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_never_point_up(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    for other in imports(path):
        assert LEVEL[other] <= LEVEL[room], f"{room} may not import {other}"
        assert (room, other) not in FORBIDDEN, f"{room} may not know {other}"


def test_every_room_has_its_place():
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix in ("", ".py")}
    assert rooms - {"__init__", "__pycache__", "__main__"} <= set(LEVEL)
