"""CrewAI: a storage backend for its `Memory`."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Self, cast

from vmemo import EmbeddingFailed, ExtractionFailed, LLMFailed, Message, ProcessingDelayed
from vmemo.sync import twin
from vmemo_integrations import AnyMemory, missing_extra

try:
    from crewai.memory import MemoryRecord, ScopeInfo
    from crewai.memory.unified_memory import Memory as CrewMemory
except ImportError as error:
    raise missing_extra("CrewAI", "crewai") from error

_DOCUMENT = "crewai:"
_RECORD = "crewai_record"
"""The metadata of a message that holds the rest of its record."""
_WITHOUT_WORDS = "…"
_LONGEST_TEXT = 1_000_000
_REMEMBERED_TEXTS = 10_000
"""Texts whose vectors `search` recognises; the oldest are dropped."""
_PAGE = 1_000
_MOST_HITS = 10_000


def crew_memory(memory: AnyMemory, **options: Any) -> CrewMemory:
    """Return a memory for `Crew(memory=...)` that keeps its records in the bank; `options` are those of CrewAI."""
    storage = VmemoStorage(memory)
    return CrewMemory(storage=storage, embedder=storage.embed, **options)


class VmemoStorage:
    """A `StorageBackend` of CrewAI: a record is a message of the bank, and a search is a recall.

    CrewAI passes vectors to a storage, and no texts. So `embed` must be the embedder of the same memory: its vectors
    only identify texts, which the storage recalls with the models of vmemo.
    """

    def __init__(self, memory: AnyMemory) -> None:
        self._memory = memory
        self._texts: OrderedDict[tuple[float, ...], str] = OrderedDict()
        self._lock = Lock()

    def __deepcopy__(self, _: object) -> Self:
        # A crew copies its memory; the database stays the same.
        return self

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text by which a search recognises it; vectors of different texts are orthogonal."""
        vectors = [_vector(text) for text in texts]
        with self._lock:
            self._texts.update(zip(map(tuple, vectors), texts, strict=True))
            while len(self._texts) > _REMEMBERED_TEXTS:
                self._texts.popitem(last=False)
        return vectors

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Store records, and derive facts from their contents."""
        await self._replace((), records)

    async def _replace(self, former: Sequence[Message], records: Sequence[MemoryRecord]) -> None:
        if records:
            await self._memory.add_messages([_message(record) for record in records])
        # Only now, so that a crash can't lose a record; a read returns the last message of a document.
        if former:
            await self._memory.forget(messages=[message.id for message in former])
        # The records are stored and queued; `status()` reports the error.
        with suppress(LLMFailed, EmbeddingFailed, ExtractionFailed, ProcessingDelayed):
            await self._memory.process()

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records that a recall of the text with this vector finds, with scores from 0 to 1."""
        with self._lock:
            text = self._texts.get(tuple(query_embedding))
        if text is None:
            raise ValueError("The vector is of another embedder; use Memory(storage=storage, embedder=storage.embed).")
        records = {message.id: record for message, record in await self._records()}
        if not records or not text.strip():
            return []
        hits = (await self._memory.retrieve(text, top_k=min(_MOST_HITS, 4 * len(records)))).hits
        # Scores are relative to the best hit; its cosine makes them comparable with CrewAI's thresholds.
        closest = max((hit.channels["semantic"].score for hit in hits if "semantic" in hit.channels), default=0.0)
        found: dict[str, tuple[MemoryRecord, float]] = {}
        for hit in hits:
            for record in (records[message] for message in hit.fact.messages if message in records):
                score = hit.score * closest
                if score >= min_score and _matches(record, scope_prefix, categories, metadata_filter):
                    found.setdefault(record.id, (record, score))
        return list(found.values())[:limit]

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the records that meet all criteria, with the facts derived from them; return their number."""
        doomed = [
            message.id
            for message, record in await self._records()
            if _matches(record, scope_prefix, categories, metadata_filter)
            and (record_ids is None or record.id in record_ids)
            and (older_than is None or _utc(record.created_at) < _utc(older_than))
        ]
        if doomed:
            await self._memory.forget(messages=doomed)
        return len(doomed)

    async def aupdate(self, record: MemoryRecord) -> None:
        """Replace the record with the same id."""
        await self._replace(await self._memory.messages(document=_document(record.id), limit=_PAGE), [record])

    save = twin(asave)
    search = twin(asearch)
    delete = twin(adelete)
    update = twin(aupdate)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record with this id, or None."""
        versions = self._memory.messages_sync(document=_document(record_id), limit=_PAGE)
        return _record(versions[-1]) if versions else None

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return a page of the records of a scope and those below it, newest first."""
        found = sorted(self._in_scope(scope_prefix), key=lambda record: _utc(record.created_at), reverse=True)
        return found[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number, the categories and the times of the records of a scope, and the scopes below it."""
        records = self._in_scope(scope)
        times = sorted((record.created_at for record in records), key=_utc)
        return ScopeInfo(
            path=_path(scope) or "/",
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes directly below a scope."""
        start = f"{_path(parent)}/"
        below = (f"{_path(record.scope)}/".removeprefix(start) for record in self._in_scope(parent))
        return sorted({start + path.split("/")[0] for path in below if path})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category in a scope."""
        return dict(Counter(category for record in self._in_scope(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope and those below it."""
        return len(self._in_scope(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Forget all records of a scope and those below it; other messages of the bank stay."""
        self.delete(scope_prefix=scope_prefix)

    def _in_scope(self, scope: str | None) -> list[MemoryRecord]:
        return [record for _, record in self._records_sync() if _matches(record, scope, None, None)]

    async def _records(self) -> list[tuple[Message, MemoryRecord]]:
        """Return the current version of each record with its message."""
        current: dict[str, Message] = {}
        after = None
        while page := await self._memory.messages(after=after, limit=_PAGE):
            for message in page:
                if message.document is not None and message.document.startswith(_DOCUMENT):
                    current[message.document] = message
            after = page[-1].id
        return [(message, _record(message)) for message in current.values()]

    _records_sync = twin(_records)


def _vector(text: str) -> list[float]:
    bits = int.from_bytes(hashlib.shake_256(text.encode("utf-8", "replace")).digest(64))
    return [1.0 if bits >> place & 1 else -1.0 for place in range(512)]


def _message(record: MemoryRecord) -> dict[str, object]:
    return {
        "content": record.content.replace("\0", "").strip()[:_LONGEST_TEXT] or _WITHOUT_WORDS,
        "document": _document(record.id),
        # The time of a record stays when it is updated, and an equal message at the same time would not be stored.
        "timestamp": datetime.now(UTC),
        "metadata": {_RECORD: record.model_dump(mode="json", exclude={"id", "content"})},
    }


def _record(message: Message) -> MemoryRecord:
    values = cast("Mapping[str, Any]", message.metadata[_RECORD])
    content = "" if message.content == _WITHOUT_WORDS else message.content
    return MemoryRecord(id=(message.document or "").removeprefix(_DOCUMENT), content=content, **values)


def _document(record_id: str) -> str:
    return _DOCUMENT + record_id


def _utc(time: datetime) -> datetime:
    """Return the time with a time zone; CrewAI's own times have none and are in UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _path(scope: str | None) -> str:
    """Return a scope as "/a/b", and the root as an empty text."""
    return "".join(f"/{label}" for label in (scope or "").split("/") if label)


def _matches(
    record: MemoryRecord, scope: str | None, categories: list[str] | None, metadata: dict[str, Any] | None
) -> bool:
    return (
        f"{_path(record.scope)}/".startswith(f"{_path(scope)}/")
        and (not categories or not set(categories).isdisjoint(record.categories))
        and all(name in record.metadata and record.metadata[name] == value for name, value in (metadata or {}).items())
    )
