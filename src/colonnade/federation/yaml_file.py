"""Reading the YAML that people write: a file becomes a model, or a list of everything wrong with it."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Hashable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from colonnade.errors import ConfigError, nearest
from colonnade.federation.problems import Problem, ProblemsError

LARGEST_FILE = 1 << 20

_FLOAT = "tag:yaml.org,2002:float"
_WITH_EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+\Z")
"""The numbers of YAML 1.2 that PyYAML, which reads 1.1, takes for text: 1e-3 has no point, 1.0e3 no sign."""
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""What PyYAML raises on text that it cannot read; a tag on the wrong thing, such as `!!int ''`, meets Python's own."""

Model = TypeVar("Model", bound=BaseModel)
Relations = Callable[[dict[str, Any]], list[tuple[str, str, str]]]
"""Checks between fields: takes the raw mapping, returns (field, what, remedy) for each thing wrong."""


def read_model(path: Path | str, model: type[Model], relations: Relations) -> Model:
    """Read a YAML file into `model`; raise one `ProblemsError` with every problem of the file."""
    path = Path(path)
    raw, problems = _load(path)
    problems += [Problem(what, path, field, remedy) for field, what, remedy in relations(raw)]
    try:
        value = model.model_validate(raw, context={"folder": path.absolute().parent})
    except ValidationError as error:
        told = {problem.field for problem in problems}
        found = [_explain(path, model, details) for details in error.errors(include_url=False)]
        raise ProblemsError(problems + [problem for problem in found if problem.field not in told]) from None
    if problems:
        raise ProblemsError(problems)
    return value


def read_value(text: str, where: str) -> Any:
    """Return the value that `text` stands for in a file; `where` is what an error names."""
    try:
        return _Loader(text).get_single_data()
    except _UNREADABLE:
        remedy = "write a number, a word, true or false"
        raise ConfigError(f"{text!r} is no value", where=where, remedy=remedy) from None


def quoted(text: str | None) -> str:
    """Write text as YAML, in quotes only where `read_model` would take it for something else."""
    return yaml.dump(text, Dumper=_Dumper, allow_unicode=True, width=1000).removesuffix("...\n").strip()


def _load(path: Path) -> tuple[dict[str, Any], list[Problem]]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise _only("is too large for a settings file", path, f"at most {LARGEST_FILE >> 20} MiB")
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise _only("is no UTF-8 text", path, "save it as UTF-8") from None
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise _only(reason, path, "'colonnade init' writes one" if "exist" in reason else "") from None
    raw, twice = _parse(text, path)
    if not isinstance(raw, dict):
        raise _only("is no list of 'key: value' lines", path, "'colonnade init' writes an example")
    return raw, [Problem(f"key '{key}' stands twice", path, f"line {line}", "keep one") for key, line in twice]


def _parse(text: str, path: Path) -> tuple[Any, list[tuple[str, int]]]:
    """Return what the text holds, and the keys that stand twice with their lines."""
    try:
        loader = _Loader(text)
        return loader.get_single_data(), loader.twice
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        what = " ".join(filter(None, [error.context, error.problem]))
        raise ProblemsError([Problem(f"is no valid YAML: {what}", path, line, error.note or "")]) from None
    except _UNREADABLE as error:
        raise _only(f"is no valid YAML: {str(error).splitlines()[0]}", path, "") from None


def _only(what: str, path: Path, remedy: str) -> ProblemsError:
    return ProblemsError([Problem(what, path, "", remedy)])


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also notices repeated keys and refuses aliases.

    A federation file comes from others: a few aliases of aliases would fill the memory of whoever reads it.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.twice: list[tuple[str, int]] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark, note="write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = (key_node.tag, str(key_node.value))
            if key in seen:
                self.twice.append((str(key_node.value), key_node.start_mark.line + 1))
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which also quotes text that `_Loader` would take for a number."""


for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(_FLOAT, _WITH_EXPONENT, list("-+.0123456789"))


def _explain(path: Path, model: type[BaseModel], details: ErrorDetails) -> Problem:
    """Say in our words what pydantic found."""
    location = [str(part) for part in details["loc"] if part != "[key]"]
    shown, what, remedy = reprlib.repr(details["input"]), details["msg"], ""
    match details["type"]:
        case "extra_forbidden":
            what, remedy = f"unknown key '{location[-1]}'", nearest(location[-1], known_keys(model, location[:-1]))
        case "missing":
            what, remedy = "is missing", "'colonnade init' writes an example"
        case "literal_error":
            allowed = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
            what, remedy = f"must not be {shown}", nearest(str(details["input"]), allowed)
        case "string_type":
            what, remedy = f"must be text, not {shown}", "put the value in quotes"
        case "model_type" | "dict_type" | "model_attributes_type":
            what, remedy = f"must be a block of 'key: value' lines, not {shown}", "write them below it, indented"
        case "tuple_type" | "list_type":
            what, remedy = f"must be a list, not {shown}", "write it in brackets: [one, another]"
        case "value_error":
            what = what.removeprefix("Value error, ")
        case _:
            what = f"{what.replace('Input should be', 'must be').replace('Input should', 'must')}, not {shown}"
            what = what[:1].lower() + what[1:]
    return Problem(what, path, ".".join(location), remedy)


def known_keys(model: type[BaseModel], location: list[str]) -> list[str]:
    """Return the keys allowed in the block at `location`."""
    block: Any = model
    for key in location:
        block = _without_none(block.model_fields[key].annotation) if _is_model(block) else get_args(block)[-1]
    return list(block.model_fields) if _is_model(block) else []


def _without_none(annotation: Any) -> Any:
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        return next(argument for argument in get_args(annotation) if argument is not NoneType)
    return annotation


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)
