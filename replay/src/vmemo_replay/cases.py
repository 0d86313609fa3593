"""Cases in YAML files: a question at a time, and what a memory must and must not recall then."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, JsonValue, ValidationError, model_validator

from vmemo.errors import InvalidInput
from vmemo.models.records import in_words, shortened
from vmemo.models.requests import QueryText, Request, Tokens

MAX_CASES = 100_000
"""Cases of one file."""
EXPECTATIONS = ("must_recall", "must_not_recall", "first", "silent", "follows")
_FIXES = {
    "files": "write files: [chat.json]",
    "messages": "write a list such as [{role: user, content: I moved to Rome., timestamp: 2026-03-01T10:00:00Z}]",
    "db": "write the path of a database file or its URL",
    "source": "write source: {files: [chat.json]}, {messages: [...]} or {db: memory.db, bank: default}",
    "question": "write the question as text",
    "at": "write a time such as 2026-03-01T10:00:00Z, a date, or the id of a message",
    "must_recall": "write a list of texts or ids of messages",
    "must_not_recall": "write a list of texts or ids of messages",
    "first": "write a text or the id of a message",
    "silent": "write true or false",
    "follows": "write a list of texts of standing instructions",
    "max_tokens": "write a number of 1 or more",
    "answerable": "write a number from 0 to 1",
    "cases": "write a list of cases, each with a question and an expectation",
    "name": "write the name as text",
}
_DEFAULT_FIX = "see docs/replay.md for the fields"


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""A list of texts, or a single one."""


class Source(Request):
    """The messages that a case is about: files, messages in the case file, or a bank."""

    files: Texts = ()
    origin: str | None = Field(default=None, alias="from")
    messages: tuple[dict[str, JsonValue], ...] = ()
    db: str | None = None
    bank: str = "default"

    @model_validator(mode="after")
    def _one(self) -> Source:
        if sum((bool(self.files), bool(self.messages), self.db is not None)) != 1:
            raise ValueError("a source has either files, messages or db")
        return self


class Case(Request):
    """A question and what must hold of its recall."""

    question: QueryText
    name: str = ""
    at: str | None = Field(default=None, description="a time, or the id of a message: what was said before it is known")
    source: Source | None = None
    must_recall: Texts = ()
    must_not_recall: Texts = ()
    first: str | None = None
    silent: bool | None = Field(default=None, description="nothing is recalled that answers with this probability")
    follows: Texts = ()
    max_tokens: Tokens = 1024
    answerable: float = Field(default=0.5, ge=0, le=1, description="the probability that `silent` allows nothing above")

    @model_validator(mode="after")
    def _expects(self) -> Case:
        if not (self.must_recall or self.must_not_recall or self.first or self.silent is not None or self.follows):
            raise ValueError(f"a case expects something: give one of {', '.join(EXPECTATIONS)}")
        return self

    @property
    def title(self) -> str:
        return self.name or shortened(self.question, 80)


class _CaseFile(Request):
    """The top level of a file."""

    source: Source | None = None
    cases: tuple[dict[str, JsonValue], ...] = Field(min_length=1, max_length=MAX_CASES)


@dataclass(frozen=True)
class PlacedCase:
    """A case with its number (from 1) in its file, and its source."""

    file: Path
    number: int
    case: Case
    source: Source

    def error(self, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.file}: case {self.number} ({self.case.title!r}): {problem}")


class _Loader(yaml.SafeLoader):
    """Reads times as text, because YAML's own have no time zone, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; raise an error that names the line of a repeated key."""
        seen: set[object] = set()
        for key, _ in node.value:
            name = key.value
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"{name!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


_TIME = "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != _TIME]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_cases(path: Path, source: Source | None = None) -> list[PlacedCase]:
    """Return the cases of a file; those of a `source` if one is given, or else of their own or of the file's."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text.") from error
    return parse_cases(text, path, source)


def parse_cases(text: str, path: Path, source: Source | None = None) -> list[PlacedCase]:
    """Return the cases of a text, as `read_cases` does; errors name the path."""
    try:
        loaded: object = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise InvalidInput(
            f"{path}: {place}{error.problem}. It must be YAML; quote texts with special marks."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not YAML: {str(error).splitlines()[0]}.") from error
    head = _parsed(_CaseFile, loaded, str(path))
    placed: list[PlacedCase] = []
    for number, values in enumerate(head.cases, start=1):
        about = values.get("name") or values.get("question")
        named = f" ({shortened(about, 60)!r})" if isinstance(about, str) else ""
        case = _parsed(Case, values, f"{path}: case {number}{named}")
        chosen = source or case.source or head.source
        if chosen is None:
            fix = _FIXES["source"]
            raise InvalidInput(f"{path}: case {number}{named}: source: there is none, here or in the file; {fix}.")
        placed.append(PlacedCase(path, number, case, chosen))
    return placed


def _parsed(kind: type[Any], value: object, place: str) -> Any:
    """Return a part of the file; raise InvalidInput that names the place, the field, the rule and the fix."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{place}: must be a mapping with fields, not {type(value).__name__}; {_FIXES['cases']}.")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        name = next((str(part) for part in reversed(first["loc"]) if str(part) in _FIXES), "")
        rule = in_words(first["type"], first["msg"])
        if first["type"] == "extra_forbidden":
            fields = [each.alias or name for name, each in kind.model_fields.items()]
            raise InvalidInput(f"{place}: there is no field {field!r:.60}; there are {', '.join(fields)}.") from error
        given = "" if first["type"] in ("missing", "value_error") else f", not {shortened(repr(first['input']), 60)}"
        fix = _FIXES.get(name, _FIXES["source"] if "source" in rule else _DEFAULT_FIX)
        raise InvalidInput(f"{place}: {f'{field}: ' if field else ''}{rule}{given}; {fix}.") from error


@dataclass(frozen=True, kw_only=True)
class NewCase:
    """A case to write, with remarks by expected text."""

    question: str
    at: str | None = None
    time: str = ""
    must_recall: Sequence[str] = ()
    must_not_recall: Sequence[str] = ()
    first: str | None = None
    silent: bool = False
    remarks: Mapping[str, str] | None = None


def write_cases(path: Path, source: Mapping[str, object], cases: Iterable[NewCase]) -> None:
    """Write cases to a new file."""
    lines = ["# Run these cases with: vmemo test " + path.name, "source:"]
    lines += [f"  {name}: {_quoted(value)}" for name, value in source.items() if value is not None]
    lines.append("cases:")
    for case in cases:
        lines += _lines_of(case)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists; record cases in a new file, or delete it first.") from error


def cases_text(source: Mapping[str, object], cases: Iterable[Case]) -> str:
    """Return the text of a file with the cases."""
    lines = ["# Run these cases with: vmemo test FILE", f"source: {_quoted(source)}", "cases:"]
    for case in cases:
        values = case.model_dump(mode="json", exclude_defaults=True, exclude={"source"})
        fields = [f"{name}: {_quoted(value)}" for name, value in values.items()]
        lines += [f"  {'  ' if number else '- '}{field}" for number, field in enumerate(fields)]
    return "\n".join(lines) + "\n"


def _lines_of(case: NewCase) -> list[str]:
    remarks = case.remarks or {}

    def item(value: str) -> str:
        remark = remarks.get(value, "")
        shown = "".join(c if c.isprintable() else " " for c in shortened(remark))
        return f"{_quoted(value)}  # {shown}" if shown else _quoted(value)

    lines = [f"  - name: {_quoted(shortened(case.question, 80))}", f"    question: {_quoted(case.question)}"]
    if case.at is not None:
        lines.append(f"    at: {_quoted(case.at)}{f'  # {case.time}' if case.time else ''}")
    for name, values in (("must_recall", case.must_recall), ("must_not_recall", case.must_not_recall)):
        lines += [f"    {name}:", *(f"      - {item(value)}" for value in values)] if values else []
    lines += [f"    first: {item(case.first)}"] if case.first is not None else []
    return [*lines, "    silent: true"] if case.silent else lines


def _quoted(value: object) -> str:
    """Return a JSON text or list, which is YAML too; characters that YAML refuses are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def relative_to(case: PlacedCase) -> PlacedCase:
    """Return a case whose files and database file are found from the folder of the case file."""
    folder, source = case.file.parent, case.source
    files = tuple(str(_beside(folder, name)) for name in source.files)
    db = (
        source.db
        if source.db is None or "://" in source.db or source.db == ":memory:"
        else str(_beside(folder, source.db))
    )
    return replace(case, source=source.model_copy(update={"files": files, "db": db}))


def _beside(folder: Path, name: str) -> Path:
    beside = folder / name
    return beside if beside.exists() else Path(name)
