"""Hindsight: the archive of a document transfer, with documents, their chunks and the facts extracted from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, JsonValue

from vmemo.models.base import Instant
from vmemo.models.requests import NewMessage
from vmemo.models.results import Skipped
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import (
    ForeignModel,
    ForeignRecords,
    Place,
    StatedFact,
    derived_id,
    without_none,
)

VERSION = 1
MANIFEST = "manifest.json"


class HindsightManifest(ForeignModel):
    """The head of an archive."""

    schema_version: int
    source_bank_id: str
    observation_count: int = 0
    mental_model_count: int = 0
    directive_count: int = 0


class HindsightFact(ForeignModel):
    """A fact without its embedding."""

    text: str
    fact_type: Literal["world", "experience"]
    event_date: Instant | None = None
    occurred_start: Instant | None = None
    occurred_end: Instant | None = None
    mentioned_at: Instant | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()


class HindsightChunk(ForeignModel):
    """A part of a document's text."""

    chunk_index: int
    chunk_text: str


class HindsightDocument(ForeignModel):
    """A document."""

    id: str = Field(min_length=1)
    original_text: str | None = None
    tags: tuple[str, ...] = ()
    created_at: Instant | None = None
    chunks: Sequence[HindsightChunk] = ()
    facts: Sequence[HindsightFact] = ()


def read(file: ForeignFile) -> ForeignRecords:
    """Return the documents' facts, and their text; text without facts is processed."""
    if MANIFEST not in file.members:
        raise file.place.error(f"has no {MANIFEST}: it is no archive of Hindsight's document transfer")
    head = _place(file, MANIFEST)
    manifest = head.parse(HindsightManifest, file.members[MANIFEST])
    if manifest.schema_version != VERSION:
        raise (head / "schema_version").error(f"must be {VERSION}, not {manifest.schema_version}")
    found = [(place, place.parse(HindsightDocument, value)) for place, value in _documents(file)]
    facts = [fact for place, document in found for fact in _facts(place, document)]
    return ForeignRecords(
        messages=[each for place, document in found if not document.facts for each in _texts(place, document)],
        verbatim=[each for place, document in found if document.facts for each in _texts(place, document)],
        facts=sorted(facts, key=lambda fact: str(fact.message.timestamp)),
        skipped=list(_left_out(manifest)),
    )


def _place(file: ForeignFile, name: str) -> Place:
    return Place(f"{file.path.name}/{name}")


def _documents(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    for name, value in sorted(file.members.items()):
        if name.startswith("documents/"):
            yield _place(file, name), value


def _texts(place: Place, document: HindsightDocument) -> Iterator[NewMessage]:
    whole = [] if document.original_text is None else [HindsightChunk(chunk_index=0, chunk_text=document.original_text)]
    for number, chunk in enumerate(document.chunks or whole):
        if chunk.chunk_text.strip():
            values = {
                "id": derived_id("hindsight", document.id, "chunk", chunk.chunk_index),
                "content": chunk.chunk_text,
                "timestamp": document.created_at,
                "document": document.id,
                "tags": document.tags,
            }
            yield (place / "chunks")[number].message(without_none(values))


def _facts(place: Place, document: HindsightDocument) -> Iterator[StatedFact]:
    for number, fact in enumerate(document.facts):
        here = (place / "facts")[number]
        mentioned = fact.mentioned_at or document.created_at or fact.occurred_start or fact.event_date
        if mentioned is None:
            raise (here / "mentioned_at").error("is missing, and so are all other times of the fact")
        message = here.message(
            without_none(
                {
                    "id": derived_id("hindsight", document.id, "fact", number, fact.text),
                    "content": fact.text,
                    "role": "assistant" if fact.fact_type == "experience" else "user",
                    "timestamp": mentioned,
                    "document": document.id,
                    "tags": tuple(dict.fromkeys(fact.tags)),
                    "metadata": dict(fact.metadata),
                }
            )
        )
        yield StatedFact(message=message, network=fact.fact_type, names=fact.entities, occurred=_occurred(fact))


def _occurred(fact: HindsightFact) -> tuple[datetime, datetime] | None:
    if fact.occurred_start is None:
        return None
    end = fact.occurred_end or fact.occurred_start
    # Our intervals are half open, and Hindsight's include their end.
    return fact.occurred_start, max(end, fact.occurred_start) + timedelta(seconds=1)


def _left_out(manifest: HindsightManifest) -> Iterator[Skipped]:
    for name, many in (
        ("observations", manifest.observation_count),
        ("mental models", manifest.mental_model_count),
        ("directives", manifest.directive_count),
    ):
        if many:
            yield Skipped(what=f"{many} {name}", reason="only documents and their facts are imported")
