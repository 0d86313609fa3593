"""Schemas of callers and the data of models: a schema that cannot be checked is rejected before any call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel
from reflect_fixtures import memory_with_model, retain_lines, says

from vmemo import InvalidInput
from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.openai import strict_schema


class Person(BaseModel):
    """Someone, with names as the outside knows them."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(alias="Full name")
    age: int = 0
    pet: str | None = None
    friends: list[Person] = []


OPTIONAL: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "Full name": {"type": "string"},
        "age": {"type": "integer"},
        "pet": {"type": ["string", "null"]},
        "friends": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}},
    },
    "required": ["Full name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [Person, OPTIONAL], ids=["model", "schema"])
def test_nulls_that_a_strict_server_asks_for_are_left_out_where_the_schema_has_none(
    sqlite_url: str, schema: type[BaseModel] | dict[str, JsonValue]
) -> None:
    retain_lines(sqlite_url, "My cat is called Tom.")
    friend: JsonValue = {"Full name": "Bo", "age": None, "pet": None, "friends": None}
    given: JsonValue = {"Full name": "Al", "age": None, "pet": None, "friends": [friend]}
    memory, model = memory_with_model(sqlite_url, says("Al [F1]."), structure=given)
    with memory:
        data = memory.reflect_sync("Who has a cat?", schema=schema).data
        assert data == {"Full name": "Al", "pet": None, "friends": [{"Full name": "Bo", "pet": None}]}
        assert Person.model_validate(data).friends[0].name == "Bo"
        sent = strict_schema(model.received[1].schema or {})
        assert sent["required"] == ["Full name", "age", "pet", "friends"]
        assert len(model.received) == 2


def test_a_null_for_a_required_property_is_rejected() -> None:
    for schema in (Person, OPTIONAL):
        why, value = CallerSchema.of(schema).parse('{"Full name": null}')
        assert why
        assert value is None


class Numbers(RootModel[list[int]]):
    """No object."""


class Calling(BaseModel):
    """A type without a JSON schema."""

    call: Callable[[], int]


@pytest.mark.parametrize(
    "schema",
    [
        Numbers,
        Calling,
        list[int],
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "#nowhere"}}},
        {"type": "object", "$ref": "#"},
        {"type": "object", "$schema": 3},
        {"type": "object", "$schema": ["x"]},
        {"type": "object", "properties": {"a": {"pattern": "["}}},
        {"type": "object", "properties": {"a": {"const": float("nan")}}},
        {"type": "object", "description": "x" * 60_000},
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_a_schema_that_no_answer_could_be_checked_by_is_refused_before_a_model_is_asked(
    sqlite_url: str, schema: dict[str, JsonValue]
) -> None:
    retain_lines(sqlite_url, "My cat is called Tom.")
    memory, model = memory_with_model(sqlite_url, says("Tom [F1]."))
    with memory, pytest.raises(InvalidInput):
        memory.reflect_sync("What is the cat called?", schema=schema)
    assert model.received == []


@pytest.mark.parametrize(
    "written",
    ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' * 400 + "1" + "}" * 400, "[" * 9000, "[]", "no"],
    ids=lambda written: written[:12],
)
def test_invalid_json_is_rejected(written: str) -> None:
    form = CallerSchema.of(
        {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": ["number", "string"]}]}}}
    )
    why, value = form.parse(written)
    assert why
    assert value is None


def test_a_pattern_takes_linear_time() -> None:
    form = CallerSchema.of({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(x+)+$"}}})
    assert form.parse('{"a": "xxx"}') == (None, {"a": "xxx"})
    assert form.parse(f'{{"a": "{"x" * 5000}!"}}') == ("$.a: violates 'pattern'", None)


def test_the_pattern_of_a_schema_that_refers_to_itself_takes_linear_time() -> None:
    part: JsonValue = {"anyOf": [{"$ref": "#"}, {"type": "string", "pattern": "^(x+)+$"}]}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    form = CallerSchema.of({"$schema": dialect, "type": "object", "properties": {"a": part}})
    why, value = form.parse(f'{{"a": {{"a": "{"x" * 5000}!"}}}}')
    assert why
    assert value is None


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"pattern": "(?=x)y"}, "lookaround"),
        ({"pattern": r"(x)\1"}, "backreferences"),
        ({"pattern": "((x{1000}){1000}){1000}"}, "short"),
        ({"patternProperties": {"^(x+)+$": {}}}, "patternProperties"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "x"}, "whole schema"),
    ],
)
def test_a_schema_whose_checks_are_not_bounded_is_rejected(part: JsonValue, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        CallerSchema.of({"type": "object", "properties": {"a": part}})


def test_references_that_multiply_are_rejected() -> None:
    parts = {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(InvalidInput, match="checks"):
        CallerSchema.of({"type": "object", "$defs": {**parts, "p40": {}}, "$ref": "#/$defs/p0"})


def test_an_answer_that_needs_too_many_checks_is_rejected() -> None:
    parts = {f"p{n}": {"items": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}] * 4}} for n in range(9)}
    schema = {"type": "object", "$defs": {**parts, "p9": {}}, "properties": {"a": {"$ref": "#/$defs/p0"}}}
    why, value = CallerSchema.of(schema).parse(f'{{"a": {"[" * 10}{"]" * 10}}}')
    assert "checks" in str(why)
    assert value is None
