"""Tool definitions: arguments, required permission, MCP annotations, and schemas that cost a model few tokens."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from inspect import getdoc
from typing import Annotated, Any, Generic, TypeVar, cast, get_type_hints

import mcp_types as wire
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.models.records import MAX_NAME, Instant, Name, Permission
from vmemo.models.requests import MAX_FILTERS
from vmemo_server.auth import Principal, includes
from vmemo_server.mcp.caller import ToolCaller

_SCHEMA_KEYS = ("type", "enum", "description", "items", "properties", "required")
"""The parts of a JSON schema that a model needs. Limits and defaults are checked when the tool is called."""


class ToolArguments(BaseModel):
    """Arguments of a tool; an unknown argument is rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class BankArguments(ToolArguments):
    """Arguments of a tool that works on a bank."""

    bank: str = Field(default="", max_length=MAX_NAME)

    @property
    def first_bank(self) -> str:
        """The bank that is opened; empty for the default one."""
        return self.bank


A = TypeVar("A", bound=ToolArguments)
B = TypeVar("B", bound=BankArguments)


@dataclass(frozen=True)
class ToolContext:
    """The bank that was opened for one tool call."""

    caller: ToolCaller
    bank: str
    memory: Memory

    @property
    def principal(self) -> Principal:
        return self.caller.principal

    def erasing(self) -> AbstractAsyncContextManager[None]:
        """Delete stored responses about the bank while text of it is deleted."""
        return self.caller.access.state.erasing(self.bank)

    @property
    def may_store_opinions(self) -> bool:
        """True if a reflection may store opinions in the bank."""
        return self.principal.allows("write", self.bank) and self.memory.forms_opinions


@dataclass(frozen=True, kw_only=True)
class ToolEffects:
    """Effects of a tool, shown to hosts as annotations."""

    destructive: bool = False
    idempotent: bool = False
    stores_opinions: bool = False
    """A reading tool that also stores opinions if the principal may write."""


@cache
def schema_of(arguments: type[ToolArguments], *, with_bank: bool = True) -> dict[str, JsonValue]:
    """Return the JSON schema of arguments; it is cached and must not be changed."""
    full: dict[str, Any] = arguments.model_json_schema()
    schema = _lean(full, full.get("$defs", {}))
    schema.pop("description", None)
    if not with_bank:
        for name in ("bank", "banks"):
            schema["properties"].pop(name, None)
    return schema


def _lean(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the parts that a model needs, without references and without null."""
    if "$ref" in schema:
        return _lean(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    merged = {**(_lean(choices[0], definitions) if choices else {}), **schema}
    lean = {key: merged[key] for key in _SCHEMA_KEYS if key in merged}
    if "items" in lean:
        lean["items"] = _lean(lean["items"], definitions)
        lean["items"].pop("description", None)
    if "properties" in lean:
        lean["properties"] = {name: _lean(each, definitions) for name, each in lean["properties"].items()}
    return lean


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[A]):
    """One tool; it returns text for a model."""

    name: str
    title: str
    description: str
    permission: Permission
    effects: ToolEffects
    arguments: type[A]
    run: Callable[[ToolCaller, A], Awaitable[str]]
    names_bank: bool = False
    """The tool chooses among banks, and a connection with a single bank does not list it."""

    def listed(self, principal: Principal) -> bool:
        """Return True if the tool is of use to a principal."""
        return includes(principal.permission, self.permission) and not (self.names_bank and principal.only_bank)

    def definition(self, principal: Principal) -> wire.Tool:
        """Return the definition for a principal; one with a single bank gets no argument `bank`."""
        stores = self.effects.stores_opinions and includes(principal.permission, "write")
        return wire.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments, with_bank=principal.only_bank is None),
            annotations=self._annotations(read_only=self.permission == "read" and not stores),
        )

    def _annotations(self, *, read_only: bool) -> wire.ToolAnnotations:
        """Return the hints that differ from their defaults; those of writes say nothing about a reading tool."""
        if read_only:
            return wire.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return wire.ToolAnnotations(
            destructive_hint=self.effects.destructive,
            idempotent_hint=self.effects.idempotent or None,
            open_world_hint=False,
        )

    async def call(self, caller: ToolCaller, arguments: Mapping[str, JsonValue]) -> str:
        """Validate the arguments and run the tool."""
        try:
            validated = self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise InvalidInput(self._explain(error)) from error
        return await self.run(caller, validated)

    def _explain(self, error: ValidationError) -> str:
        faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()]
        known = ", ".join(self.arguments.model_fields)
        return f"{'; '.join(faults[:10])}. {self.name} takes {known or 'no arguments'}. Nothing was changed."


def tool(
    title: str,
    permission: Permission,
    *,
    effects: ToolEffects | None = None,
    create: bool = False,
    names_bank: bool = False,
) -> Callable[[Callable[[ToolContext, B], Awaitable[str]]], Tool[B]]:
    """Make a tool of a function that works on a bank; its docstring is the description.

    The bank is opened before the function is called, and writes are recorded in the audit log.
    """

    stores_opinions = effects is not None and effects.stores_opinions

    def decorate(function: Callable[[ToolContext, B], Awaitable[str]]) -> Tool[B]:
        async def run(caller: ToolCaller, arguments: B) -> str:
            context = await _open(caller, arguments.first_bank, permission, create)
            if permission == "read" and not (stores_opinions and context.may_store_opinions):
                return await function(context, arguments)
            entry = await caller.begin_write(function.__name__, context.bank)
            try:
                result = await function(context, arguments)
            except Exception as error:
                # The call was authorized and may have changed something before it failed.
                await caller.finish_write(entry, error)
                raise
            await caller.finish_write(entry, None)
            return result

        return Tool(
            name=function.__name__,
            title=title,
            description=description_of(function),
            permission=permission,
            effects=effects or ToolEffects(),
            arguments=cast("type[B]", get_type_hints(function)["arguments"]),
            run=run,
            names_bank=names_bank,
        )

    return decorate


def description_of(function: Callable[..., object]) -> str:
    """Return the docstring of a function as one line."""
    return " ".join((getdoc(function) or "").split())


async def _open(caller: ToolCaller, named: str, permission: Permission, create: bool) -> ToolContext:
    bank = named or caller.principal.default_bank
    if bank is None:
        raise InvalidInput(
            "Name a bank: this API key may use several. list_banks returns their names. Nothing was changed."
        )
    return ToolContext(caller, bank, await caller.open_bank(bank, permission, create=create))


def _parse_time(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value[:40]!r} is not a date or time in ISO 8601") from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _parse_list(value: object) -> object:
    """Return a list that a host sends as JSON text, or one bare string, as a list."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return [value]
    try:
        parsed: object = json.loads(value)
    except ValueError:
        return [value]
    return parsed


Timestamp = Annotated[Instant, BeforeValidator(_parse_time), WithJsonSchema({"type": "string"})]
"""A date or time in ISO 8601; without a time zone it is UTC."""
StringList = Annotated[tuple[Name, ...], BeforeValidator(_parse_list), Field(max_length=MAX_FILTERS)]
