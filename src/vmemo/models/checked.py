"""Frozen dataclasses whose fields are validated by their types and can be read from environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from vmemo.errors import InvalidInput
from vmemo.models.base import in_words


@dataclass(frozen=True)
class Env:
    """The environment variable that a setting is read from."""

    name: str


def _split(value: object) -> object:
    """Split a list that an environment variable holds."""
    return tuple(filter(None, value.replace(" ", "").split(","))) if isinstance(value, str) else value


def _decode(value: object) -> object:
    """Decode a JSON object that an environment variable holds."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _split_names(value: object) -> object:
    """Split a list of names, which may contain spaces, that an environment variable holds."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
AtLeastOne = Annotated[int, Field(ge=1)]
Languages = Annotated[tuple[str, ...], BeforeValidator(_split)]
Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], BeforeValidator(_split_names)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
FromJson = BeforeValidator(_decode)


@dataclass(frozen=True)
class Checked:
    """Validates its fields by their types; raises InvalidInput that names the field, the rule and the value."""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if all(values[each.name] is each.default for each in fields(self)):
            # Defaults are valid. A default instance may be created on import, where no validator must be built.
            return
        try:
            checked = _validator(type(self)).model_validate(values)
        except ValidationError as error:
            raise InvalidInput(self._explain(type(self).__name__, error, {})) from error
        for name in values:
            object.__setattr__(self, name, getattr(checked, name))

    @classmethod
    def read(cls, environment: Mapping[str, str], variables: Mapping[str, str], **given: object) -> Self:
        """Return an instance of the variables that are set and not empty; errors name the variable."""
        found = {field: environment[name] for field, name in variables.items() if environment.get(name)}
        try:
            return cls(**found, **given)
        except InvalidInput as error:
            if isinstance(cause := error.__cause__, ValidationError):
                raise InvalidInput(cls._explain("The environment", cause, variables)) from cause
            raise

    @classmethod
    def _explain(cls, source: str, error: ValidationError, labels: Mapping[str, str]) -> str:
        """Return what is wrong; a field with a label is reported under it, and the value of a secret is left out."""
        secrets = {each.name for each in fields(cls) if not each.repr}
        lines: list[str] = []
        for each in error.errors():
            name = str(each["loc"][0])
            value = "" if name in secrets else f", not {each['input']!r:.60}"
            lines.append(f"{labels.get(name, name)}: {in_words(each['type'], each['msg'])}{value}")
        return f"{source} is not valid: {'; '.join(lines)}."


@cache
def field_types(kind: type[Checked]) -> dict[str, Any]:
    """Return the types of a settings class's fields with their annotations."""
    return get_type_hints(kind, include_extras=True)


@cache
def _validator(kind: type[Checked]) -> type[BaseModel]:
    """Return the Pydantic model of a settings class, built on first use to keep the import of vmemo fast."""
    types: dict[str, Any] = {name: (hint, ...) for name, hint in field_types(kind).items()}
    return create_model(
        kind.__name__, __config__=ConfigDict(revalidate_instances="never", hide_input_in_errors=True), **types
    )
