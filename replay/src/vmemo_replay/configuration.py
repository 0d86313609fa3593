"""Configurations of a memory to replay with, and their combinations: `engine=local,llm:MODEL embedder=default,deep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.models.requests import MAX_TOKENS
from vmemo.providers import cache_embedder
from vmemo.settings import Settings, build_embedder

MAX_CONFIGURATIONS = 8
"""Configurations of one replay, at most: each replays the whole conversation."""
_LLM = "llm:"
_OWN = ("engine", "embedder", "max_tokens", "precise")
_NEVER = ("url", "read_url", "llm", "encryption_key", "encryption_key_file", "llm_key", "embedder_key", "reranker_key")
"""Settings that no comparison varies: databases, keys, and the model, which `engine` names."""
_FLAGS = {"on": True, "off": False}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A language model, an embedder, settings, and the budget of a recall; `label` names what varies."""

    llm: str | None = None
    embedder: str | None = None
    max_tokens: int = 1024
    precise: bool = False
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    label: str = "default"

    @property
    def engine(self) -> str:
        return "local" if self.llm is None else f"{_LLM}{self.llm}"

    def resolved(self) -> Settings:
        """Return the settings, those of the environment included; background work is done when a session ends."""
        given: dict[str, object] = {"llm": self.llm, "background": False, "observe_delay": 0.0, **self.settings}
        if self.embedder is not None:
            given["embedder"] = self.embedder
        return Settings.from_environment(**given)

    def memory(self, url: str, bank: str = "default") -> Memory:
        """Return a memory of this configuration on a database.

        Its embedder is built here, so that each text is embedded once for all that asks for it.
        """
        settings = self.resolved()
        embedder = cache_embedder(build_embedder(settings.embedder, settings), None)
        return Memory(url, bank, embedder=embedder, settings=settings)


def combinations(base: Configuration, compared: Sequence[str]) -> list[Configuration]:
    """Return the base, or the combinations of what is compared; raise InvalidInput for what can't be."""
    axes = [_axis(text) for text in compared]
    names = [name for name, _ in axes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInput(f"--compare names {twice} twice; give all of its values in one, separated by commas.")
    made = [_varied(base, dict(zip(names, values, strict=True))) for values in product(*(each for _, each in axes))]
    if len(made) > MAX_CONFIGURATIONS:
        raise InvalidInput(
            f"These comparisons make {len(made)} configurations, and a replay takes at most {MAX_CONFIGURATIONS}; "
            "compare fewer values at a time."
        )
    for configuration in made:
        configuration.resolved()
    return made


def _axis(text: str) -> tuple[str, list[str]]:
    name, found, values = text.partition("=")
    options = [value.strip() for value in values.split(",") if value.strip()]
    settings = Settings.model_fields.keys() - set(_NEVER) - set(_OWN)
    if not found or not options or name not in {*_OWN, *settings}:
        raise InvalidInput(
            f"--compare {text!r:.60} must be NAME=VALUE,VALUE… with the name engine, embedder, max_tokens, precise or "
            "a setting (docs/settings.md), such as engine=local,llm:openai:gpt-5-mini or embedder=default,deep."
        )
    return name, options


def _varied(base: Configuration, values: Mapping[str, str]) -> Configuration:
    made = replace(base, label=" ".join(f"{name}={value}" for name, value in values.items()) or base.label)
    for name, value in values.items():
        made = _with(made, name, value)
    return made


def _with(base: Configuration, name: str, value: str) -> Configuration:
    match name:
        case "engine":
            return replace(base, llm=engine_model(value))
        case "embedder":
            return replace(base, embedder=None if value == "default" else value)
        case "max_tokens":
            return replace(base, max_tokens=_tokens(value))
        case "precise":
            if value not in _FLAGS:
                raise InvalidInput(f"precise must be on or off, not {value!r:.40}.")
            return replace(base, precise=_FLAGS[value])
        case _:
            return replace(base, settings={**base.settings, name: value})


def engine_model(engine: str) -> str | None:
    """Return the language model of an engine: none for `local`, the model for `llm:MODEL`."""
    if engine == "local":
        return None
    model = engine.removeprefix(_LLM)
    if model == engine or not model:
        raise InvalidInput(f"engine must be local or llm:MODEL, such as llm:openai:gpt-5-mini, not {engine!r:.60}.")
    return model


def _tokens(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= MAX_TOKENS:
        raise InvalidInput(f"max_tokens must be a number from 1 to {MAX_TOKENS:,}, not {value!r:.40}.")
    return int(value)
