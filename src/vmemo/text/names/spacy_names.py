"""Names found by a spaCy pipeline, which knows places and companies that the rules do not."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import MissingExtra
from vmemo.models import EntityType
from vmemo.models.changes import FoundName

SIZES = ("_lg", "_md", "_sm")
"""Preferred sizes of an English pipeline; transformer pipelines must be named explicitly."""
TYPES: Mapping[str, EntityType] = {
    "PERSON": "PERSON",
    "ORG": "ORGANIZATION",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "PRODUCT": "PRODUCT",
    "EVENT": "EVENT",
    "WORK_OF_ART": "OTHER",
}
"""Entity type by spaCy label; numbers, dates and nationalities are not entities."""
_DISABLED = ["parser", "lemmatizer"]


class _Span(Protocol):
    text: str
    label_: str


class _Document(Protocol):
    ents: Sequence[_Span]


class _Pipeline(Protocol):
    def pipe(self, texts: Iterable[str], *, disable: Sequence[str]) -> Iterator[_Document]: ...


class _Loader(Protocol):
    def load(self, name: str) -> _Pipeline: ...


def installed_pipeline() -> str | None:
    """Return the preferred installed pipeline, or None if spaCy or a pipeline is missing. Imports nothing."""
    if find_spec("spacy") is None:
        return None
    names = [point.name for point in entry_points(group="spacy_models") if point.name.startswith("en_")]
    return next((name for size in SIZES for name in sorted(names) if size in name), None)


class SpacyNames:
    """NameReader that uses spaCy. Loads the pipeline at the first call; safe to share between threads."""

    def __init__(self, model: str | None = None) -> None:
        chosen = model or installed_pipeline()
        if chosen is None or find_spec("spacy") is None:
            raise MissingExtra(
                "Finding names with spaCy needs spaCy and an English pipeline, which are not installed. "
                'Run: pip install "vmemo[names]"'
            )
        self._model = chosen
        self._lock = threading.Lock()
        self._pipeline: _Pipeline | None = None

    def __call__(self, texts: Sequence[str]) -> list[tuple[FoundName, ...]]:
        """Return the names of each text."""
        return [tuple(_names_of(document)) for document in self._load().pipe(texts, disable=_DISABLED)]

    def _load(self) -> _Pipeline:
        with self._lock:
            if self._pipeline is None:
                self._pipeline = cast("_Loader", import_module("spacy")).load(self._model)
            return self._pipeline


def _names_of(document: _Document) -> Iterator[FoundName]:
    for span in document.ents:
        name = span.text.strip(" \n\t'\"“”‘’.,;:!?").removesuffix("'s").removesuffix("’s")
        if span.label_ in TYPES and name and len(name) <= 80:
            yield FoundName(name=name, type=TYPES[span.label_])
