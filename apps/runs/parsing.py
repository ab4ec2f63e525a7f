"""Read a run's configuration from YAML or decoded JSON, and write it as YAML.

Every problem is named by its dotted field, with what is right.
"""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from apps.runs.config import ConfigError, RunConfig
from apps.runs.refusals.plan import refusals

MAX_FILE_BYTES = 256 * 1024
MAX_VALUES = 5_000  # keys and values of a configuration, with all that they hold
MAX_QUOTE_LENGTH = 100  # characters of a key or value that an error repeats


def parse_config(data: object) -> RunConfig:
    """Return the configuration in `data` (decoded JSON or YAML).

    Raises ConfigError naming each field and what is right.
    """
    if not isinstance(data, dict):
        raise ConfigError({"configuration": "must be a mapping of fields, such as `policy: tone`"})
    _require_bounded(data)
    if problems := dict.fromkeys(
        _with_nul(data), "contains a NUL character, which cannot be stored"
    ):
        raise ConfigError(problems)
    try:
        plan = RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(
            _listed_once(_explain_problem(problem) for problem in error.errors())
        ) from error
    if problems := refusals(plan):
        raise ConfigError(problems)
    return plan


def _require_bounded(data: dict[str, Any]) -> None:
    """Refuse what would take long to check. Raises ConfigError."""
    values = 0
    size = 0
    waiting: list[object] = [data]
    while waiting:
        value = waiting.pop()
        values += 1
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        if values + len(waiting) > MAX_VALUES:
            raise ConfigError({"configuration": f"has more than {MAX_VALUES:,} keys and values"})
        if size > MAX_FILE_BYTES:
            words = f"contains more than {MAX_FILE_BYTES // 1024} KiB of text"
            raise ConfigError({"configuration": words})


def _with_nul(data: object, path: str = "") -> Iterator[str]:
    """Yield the dotted fields in which a NUL stands, as a value or in the name of a key.

    YAML and JSON can both spell one.
    """
    if isinstance(data, str) and "\0" in data:
        yield path
    elif isinstance(data, dict):
        for name, value in data.items():
            inner = f"{path}.{name}".removeprefix(".").replace("\0", "")
            yield from [inner] if "\0" in str(name) else _with_nul(value, inner)
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield from _with_nul(value, f"{path}.{number}")


def from_yaml(text: str) -> RunConfig:
    """Return the configuration in a YAML text. Raises ConfigError."""
    return parse_config(load_yaml(text))


def load_yaml(text: str) -> object:
    """Parse a YAML text with the safe loader. Raises ConfigError.

    Aliases (expansion bombs) and duplicate keys are refused.
    """
    if len(text.encode()) > MAX_FILE_BYTES:
        raise ConfigError({"configuration": f"is larger than {MAX_FILE_BYTES // 1024} KiB"})
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
    ) as error:  # ValueError: a date that there is not
        raise ConfigError({"configuration": f"is not valid YAML: {_in_words(error)}"}) from error


def lines_by_field(text: str) -> dict[str, int]:
    """Return the line (from 1) of each field of a YAML text by its dotted address.

    The text must be one that `load_yaml` accepts.
    """
    return dict(_lines(yaml.compose(text, Loader=_StrictLoader), ""))


def line_of_error(error: ConfigError) -> int | None:
    """Return the line, from 1, at which a text stopped being YAML; None if it isn't known."""
    mark = _mark(error.__cause__)
    return mark.line + 1 if mark else None


def keys_by_section(section: type[BaseModel] = RunConfig, prefix: str = "") -> dict[str, list[str]]:
    """Return the keys of each section by its dotted address; "" is the whole configuration.

    A section of which there are several kinds has the keys of all of them.
    """
    keys_by_address = {prefix: list(section.model_fields)}
    for name, info in section.model_fields.items():
        address = f"{prefix}.{name}".removeprefix(".")
        for inner in _sections_of(info.annotation):
            for place, keys in keys_by_section(inner, address).items():
                section_keys = keys_by_address.setdefault(place, [])
                section_keys += [key for key in keys if key not in section_keys]
    return keys_by_address


def _lines(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            address = f"{prefix}.{str(key.value)[:MAX_QUOTE_LENGTH]}".removeprefix(".")
            yield address, key.start_mark.line + 1
            yield from _lines(value, address)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield f"{prefix}.{number}", value.start_mark.line + 1
            yield from _lines(value, f"{prefix}.{number}")


def _mark(error: BaseException | None) -> yaml.Mark | None:
    if not isinstance(error, yaml.MarkedYAMLError):
        return None
    return error.problem_mark or error.context_mark


def _in_words(error: Exception) -> str:
    mark = _mark(error)
    if mark is None or not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    words = f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if error.context is None:
        return words
    start = f" from line {error.context_mark.line + 1}" if error.context_mark else ""
    return f"{words} ({error.context}{start})"


def to_yaml(config: RunConfig) -> str:
    return as_yaml(config.model_dump(mode="json"))


def as_yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


class _StrictLoader(yaml.SafeLoader):
    """YAML loader without aliases or repeated keys, which reads `1e-4` as a number."""

    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.nodes += 1
        if self.nodes > MAX_VALUES:  # a small file of many nodes takes the parser seconds
            raise yaml.YAMLError(f"it has more than {MAX_VALUES:,} keys and values")
        if self.check_event(yaml.events.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs lack its types
            raise yaml.MarkedYAMLError(
                problem="aliases are not allowed", problem_mark=alias.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        met = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # PyYAML refuses it
            if key in met:
                quoted = repr(key)[:MAX_QUOTE_LENGTH]
                raise yaml.MarkedYAMLError(
                    problem=f"the key {quoted} occurs twice", problem_mark=key_node.start_mark
                )
            met.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _listed_once(problems: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return problems by field; only the first one contains the list of known fields."""
    by_field: dict[str, str] = {}
    listed: set[str] = set()
    for field, words in problems:
        problem, separator, names = words.partition("; known: ")
        by_field[field] = problem if names in listed else f"{problem}{separator}{names}"
        listed.add(names)
    return by_field


def _explain_problem(problem: ErrorDetails) -> tuple[str, str]:
    path, section = _walk_location(problem["loc"])
    if problem["type"] == "extra_forbidden":
        return path, _suggest_field(str(problem["loc"][-1]), section)
    if problem["type"] == "union_tag_invalid":
        return (
            f"{path}.name",
            (
                f"is {problem['ctx']['tag']!r}; take one of "
                f"{problem['ctx']['expected_tags'].replace(chr(39), '')}"
            ),
        )
    if problem["type"] == "missing":
        return path, "is required: enter a value"
    return path or "configuration", problem["msg"].removeprefix("Value error, ")


def _walk_location(location: tuple[int | str, ...]) -> tuple[str, type[BaseModel]]:
    """Return the dotted field that a location means, and its section.

    The name of a loss or an advantage is a step, but no field.
    """
    section: type[BaseModel] = RunConfig
    path = []
    choice: dict[Any, type[BaseModel]] = {}
    for part in location:
        if part in choice:
            section = choice[part]
            choice = {}
            continue
        path.append(str(part)[:MAX_QUOTE_LENGTH])
        kinds = (
            _sections_of(section.model_fields[part].annotation)
            if part in section.model_fields
            else []
        )
        choice = (
            {kind.model_fields["name"].default: kind for kind in kinds} if len(kinds) > 1 else {}
        )
        section = kinds[0] if len(kinds) == 1 else section
    return ".".join(path), section


def _sections_of(annotation: object) -> list[type[BaseModel]]:
    """Return the sections that a field's value may be, at any depth of unions and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections_of(inner)]


def _suggest_field(name: str, section: type[BaseModel]) -> str:
    """Suggest the field of the section that an unknown key was probably meant to be."""
    close = difflib.get_close_matches(name[:MAX_QUOTE_LENGTH], section.model_fields, n=1)
    return (
        f"is not a known field; did you mean `{close[0]}`?"
        if close
        else f"is not a known field; known: {', '.join(section.model_fields)}"
    )
