"""Versioned prompt files: a line `version: N`, the system message and the template of the user message."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from pydantic import BaseModel, JsonValue

from vmemo.ports import LLMRequest

_SEPARATOR = re.compile(r"^---$\n", re.MULTILINE)
_VERSION = re.compile(r"version: (\d+)\s*")


@dataclass(frozen=True)
class Prompt:
    """One prompt file. Facts record the `label` of the prompt that they were extracted with."""

    step: str
    version: int
    system: Template
    user: Template

    @property
    def label(self) -> str:
        """Name and version, such as `extract-2`."""
        return f"{self.step}-{self.version}"

    def request(self, schema: type[BaseModel], *, max_tokens: int = 4096, **values: str) -> LLMRequest:
        """Return the request with the templates filled in. Dollar signs inside values are kept."""
        return LLMRequest(
            step=self.step,
            system=self.system.safe_substitute(values),
            user=self.user.substitute(values),
            schema=_json_schema(schema),
            max_tokens=max_tokens,
        )


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    """Return a model's JSON schema, cached because building it dominates the cost of a request."""
    schema = _without_titles(model.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def _without_titles(value: JsonValue, *, names: bool = False) -> JsonValue:
    """Drop titles, which repeat names, and the docstrings of objects; keys of `properties` and `$defs` are names."""
    if isinstance(value, dict):
        dropped = () if names else ("title", "description") if "properties" in value else ("title",)
        kept = ((key, part) for key, part in value.items() if key not in dropped)
        return {key: _without_titles(part, names=not names and key in ("properties", "$defs")) for key, part in kept}
    return [_without_titles(part) for part in value] if isinstance(value, list) else value


@cache
def load_prompt(stage: str, step: str) -> Prompt:
    """Return the prompt of a step, from the folder of its stage; each file is read once."""
    file = Path(__file__).parents[1] / stage / "prompts" / f"{step}.md"
    version, system, user = _SEPARATOR.split(file.read_text(encoding="utf-8"), maxsplit=2)
    match = _VERSION.fullmatch(version)
    assert match is not None, f"{step}.md must start with a line 'version: N'"
    return Prompt(step, int(match[1]), Template(system.strip()), Template(user.strip()))


def quote(lines: Iterable[str]) -> str:
    """Return untrusted lines between markers derived from their hash, so that the text cannot close the quote."""
    flat = "\n".join(" ".join(line.split()) for line in lines)
    mark = hashlib.blake2b(flat.encode(), digest_size=4).hexdigest()
    return f"<<{mark}\n{flat}\n{mark}>>"
