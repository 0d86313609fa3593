"""Prompts are versioned files beside their stage: a line `version: N`, the system text, and the user's template."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from pydantic import BaseModel, JsonValue

from vmemo.ports import Ask

_PARTS = re.compile(r"^---$\n", re.MULTILINE)
_VERSION = re.compile(r"version: (\d+)\s*")


@dataclass(frozen=True)
class Prompt:
    """One prompt file. `label` goes with every fact that was read with it."""

    step: str
    version: int
    system: Template
    user: Template

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.step}-{self.version}"

    def ask(self, shape: type[BaseModel], *, max_tokens: int = 4096, **values: str) -> Ask:
        """The question with its blanks filled in. Dollar signs inside values stay what they are."""
        return Ask(
            step=self.step,
            system=self.system.safe_substitute(values),
            user=self.user.substitute(values),
            schema=_schema(shape),
            max_tokens=max_tokens,
        )


@cache
def _schema(shape: type[BaseModel]) -> dict[str, JsonValue]:
    """Made once: it takes longer than all else that asking takes on this side. Titles only repeat the names."""
    schema = _untitled(shape.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def _untitled(value: JsonValue, *, names: bool = False) -> JsonValue:
    """A part of a schema without its titles; the keys of `properties` and `$defs` are names, and stay."""
    if isinstance(value, dict):
        kept = value.items() if names else ((key, part) for key, part in value.items() if key != "title")
        return {key: _untitled(part, names=not names and key in ("properties", "$defs")) for key, part in kept}
    return [_untitled(part) for part in value] if isinstance(value, list) else value


@cache
def load(folder: Path, step: str) -> Prompt:
    """Read a prompt file, once."""
    version, system, user = _PARTS.split((folder / f"{step}.md").read_text(encoding="utf-8"), maxsplit=2)
    match = _VERSION.fullmatch(version)
    assert match is not None, f"the prompt {step} begins with its version"
    return Prompt(step, int(match[1]), Template(system.strip()), Template(user.strip()))


def quoted(lines: Iterable[str]) -> str:
    """Lines of foreign text between marks that depend on the text, so that it can't write the closing mark itself."""
    flat = "\n".join(" ".join(line.split()) for line in lines)
    mark = hashlib.blake2b(flat.encode(), digest_size=4).hexdigest()
    return f"<<{mark}\n{flat}\n{mark}>>"
