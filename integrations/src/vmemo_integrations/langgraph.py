"""LangGraph: a `BaseStore` whose items are messages of vmemo banks."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from pydantic import JsonValue

from vmemo import EmbeddingFailed, ExtractionFailed, LLMFailed, Message, ProcessingDelayed
from vmemo.sync import twin
from vmemo_integrations import AnyMemory, missing_extra

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise missing_extra("LangGraph", "langgraph") from error

Namespace: TypeAlias = tuple[str, ...]
_DOCUMENT = "langgraph:"
_ITEM = "langgraph_item"
"""The metadata of a message that holds its item."""
_WITHOUT_WORDS = "…"
"""The content of an item that is not searched."""
_LONGEST_TEXT = 1_000_000
_LONGEST_KEY = 400
"""Characters of a key in the name of its document; a longer one is hashed."""
_PAGE = 1_000
_MOST_HITS = 10_000
_HITS_PER_ITEM = 4
"""Facts to recall for each wanted item, since several facts may come from one."""


class VmemoStore(BaseStore):
    """A LangGraph store on a `Memory` or a `Client`: a bank per namespace, a document per key.

    An item is one message: the value is kept in the metadata, and its text is processed like any other message,
    so that `search(query=...)` recalls it.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        fields: Sequence[str] = ("$",),
        prefix: str = "langgraph",
        wait: bool = True,
    ) -> None:
        """Use the banks `prefix.label.label` of the memory's database; the memory's own bank is not touched.

        `fields` are the paths of a value that a query searches, all by default; `put(index=...)` overrides them. With
        `wait=False` a put returns once the value is stored, and a worker, or `process()`, makes it searchable.
        """
        self._memory = memory
        self._fields = tuple(fields)
        self._prefix = f"{prefix}."
        self._wait = wait

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: first the reads, then the writes, of which the last one for each key counts."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        results = [None if isinstance(op, PutOp) else await self._read(op) for op in ops]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for namespace in dict.fromkeys(namespace for namespace, _ in puts):
            await self._write(namespace, [op for op in puts.values() if op.namespace == namespace])
        return results

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations as `abatch` does, with and without a running event loop."""
        return self._batch(ops)

    _batch = twin(abatch)

    async def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        match op:
            case GetOp():
                return await self._get(op)
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._list_namespaces(op)

    async def _get(self, op: GetOp) -> Item | None:
        bank = self._bank(op.namespace)
        if not await bank.exists():
            return None
        versions = await self._versions(bank, op.key)
        return _Stored.of(versions[-1]).item(op.namespace) if versions else None

    async def _write(self, namespace: Namespace, puts: Sequence[PutOp]) -> None:
        bank = self._bank(namespace)
        exists = await bank.exists()
        former = {op.key: await self._versions(bank, op.key) if exists else [] for op in puts}
        for indexed in (True, False):
            new = [self._message(op, former[op.key]) for op in puts if op.value is not None and _indexed(op) is indexed]
            if new:
                await bank.add_messages(new, infer=indexed)
        # Only now, so that a crash can't lose the value; a read returns the last message of a document.
        if removed := [message.id for versions in former.values() for message in versions]:
            await bank.forget(messages=removed)
        if self._wait and any(op.value is not None for op in puts):
            # The value is stored and queued; `status()` reports the error.
            with suppress(LLMFailed, EmbeddingFailed, ExtractionFailed, ProcessingDelayed):
                await bank.process()

    @staticmethod
    async def _versions(bank: AnyMemory, key: str) -> list[Message]:
        """Return the messages of an item: the current one last, after any that a crash kept from being forgotten."""
        return await bank.messages(document=_document(key), limit=_PAGE)

    def _message(self, op: PutOp, former: Sequence[Message]) -> dict[str, object]:
        now, value, document = datetime.now(UTC), dict(op.value or {}), _document(op.key)
        created = _Stored.of(former[-1]).created_at if former else now
        item = {"value": value, "created_at": created.isoformat(), "indexed": _indexed(op)}
        if document != _DOCUMENT + op.key:
            item["key"] = op.key
        text = _text(value, self._fields if op.index is None else op.index or ())
        content = text if text.strip() else _WITHOUT_WORDS
        return {"content": content, "document": document, "timestamp": now, "metadata": {_ITEM: item}}

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        found: list[SearchItem] = []
        for namespace in await self._namespaces(tuple(op.namespace_prefix)):
            found += await self._search_namespace(namespace, op)
        # The second sort keeps the order of the first one among items without a score.
        found.sort(key=lambda item: item.updated_at, reverse=True)
        found.sort(key=lambda item: float("-inf") if item.score is None else item.score, reverse=True)
        return found[op.offset : op.offset + op.limit]

    async def _search_namespace(self, namespace: Namespace, op: SearchOp) -> list[SearchItem]:
        stored = await self._stored(namespace)
        scores: dict[str, float] = {}
        if op.query and op.query.strip() and stored:
            wanted = len(stored) if op.filter else op.offset + op.limit
            top_k = min(_MOST_HITS, _HITS_PER_ITEM * max(1, wanted))
            hits = (await self._bank(namespace).retrieve(op.query, top_k=top_k)).hits
            # Scores are relative to the best hit of a bank; its cosine makes those of several banks comparable.
            closest = max((hit.channels["semantic"].score for hit in hits if "semantic" in hit.channels), default=0.0)
            for hit in hits:
                for message in hit.fact.messages:
                    scores.setdefault(message, hit.score * closest)
        matches = [each for each in stored if _matches(each.value, op.filter or {})]
        return [each.search_item(namespace, scores.get(each.id) if each.indexed else None) for each in matches]

    async def _stored(self, namespace: Namespace) -> list[_Stored]:
        """Return the current items of one namespace."""
        current = {each.key: each async for each in self._all_stored(namespace)}
        return list(current.values())

    async def _all_stored(self, namespace: Namespace) -> AsyncGenerator[_Stored]:
        bank, after = self._bank(namespace), None
        while page := await bank.messages(after=after, limit=_PAGE):
            for message in page:
                if message.document is not None and message.document.startswith(_DOCUMENT):
                    yield _Stored.of(message)
            after = page[-1].id

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        matching = [name for name in await self._namespaces(()) if all(_fits(name, each) for each in conditions)]
        # A bank outlives its last item.
        filled = [name for name in matching if await self._bank(name).messages(limit=1)]
        shown = sorted({name[: op.max_depth] for name in filled})
        return shown[op.offset : op.offset + op.limit]

    async def _namespaces(self, prefix: Namespace) -> list[Namespace]:
        names = [name for name in await self._memory.banks() if name.startswith(self._prefix)]
        namespaces = [tuple(name.removeprefix(self._prefix).split(".")) for name in names]
        return [namespace for namespace in namespaces if namespace[: len(prefix)] == prefix]

    def _bank(self, namespace: Namespace) -> AnyMemory:
        return self._memory.bank(self._prefix + ".".join(namespace))


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """An item as it is stored in a message."""

    id: str
    key: str
    value: dict[str, Any]
    indexed: bool
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, message: Message) -> _Stored:
        item = cast("Mapping[str, Any]", message.metadata[_ITEM])
        return cls(
            id=message.id,
            key=item.get("key", (message.document or "").removeprefix(_DOCUMENT)),
            value=item["value"],
            indexed=item["indexed"],
            created_at=datetime.fromisoformat(item["created_at"]),
            updated_at=message.timestamp,
        )

    def item(self, namespace: Namespace) -> Item:
        return Item(
            value=self.value,
            key=self.key,
            namespace=namespace,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def search_item(self, namespace: Namespace, score: float | None) -> SearchItem:
        return SearchItem(namespace, self.key, self.value, self.created_at, self.updated_at, score)


def _document(key: str) -> str:
    if len(key) > _LONGEST_KEY or not key.isprintable():
        key = f"#{hashlib.sha256(key.encode()).hexdigest()}"
    return _DOCUMENT + key


def _indexed(op: PutOp) -> bool:
    """Return True if a query may find the item; both `index=False` and no fields exclude it."""
    return op.index is None or bool(op.index)


def _text(value: dict[str, JsonValue], fields: Sequence[str]) -> str:
    """Return the texts of the fields; for "$" those of the whole value, with the names of fields unless it has one."""
    texts: list[str] = []
    for field in fields:
        if field == "$":
            leaves = list(_leaves(value))
            texts += [leaf for _, leaf in leaves] if len(leaves) == 1 else [f"{path}: {leaf}" for path, leaf in leaves]
        else:
            texts += get_text_at_path(value, field)
    return "\n".join(texts).replace("\0", "")[:_LONGEST_TEXT]


def _leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, child in value.items():
                yield from _leaves(child, f"{path}.{name}" if path else name)
        case list():
            for child in value:
                yield from _leaves(child, path)
        case None:
            return
        case _:
            yield path, str(value)


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    size = len(condition.path)
    if size > len(namespace):
        return False
    labels = namespace[:size] if condition.match_type == "prefix" else namespace[len(namespace) - size :]
    return all(wanted in ("*", label) for wanted, label in zip(condition.path, labels, strict=True))


def _matches(value: JsonValue, wanted: JsonValue) -> bool:
    """Return True if a value has all the entries of a filter, which may be comparisons such as {"$gt": 3}."""
    if not isinstance(wanted, dict):
        return value == wanted
    if any(name.startswith("$") for name in wanted):
        return all(_compare(value, operator, other) for operator, other in wanted.items())
    return isinstance(value, dict) and all(_matches(value.get(name), other) for name, other in wanted.items())


def _compare(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return (value == other) is (operator == "$eq")
    comparable = isinstance(value, str) == isinstance(other, str) and None not in (value, other)
    match operator:
        case "$gt":
            return comparable and value > other
        case "$gte":
            return comparable and value >= other
        case "$lt":
            return comparable and value < other
        case "$lte":
            return comparable and value <= other
        case _:
            raise ValueError(f"Unsupported operator {operator!r}; use $eq, $ne, $gt, $gte, $lt or $lte.")
