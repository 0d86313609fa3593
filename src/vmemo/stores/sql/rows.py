"""Rows to models and back. Rows come from our own tables, so models are built from them without validation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row

from vmemo.models import Bank, BankId, Entity, EntityId, Episode, Fact, FactId, Mention, Message, MessageId, Profile
from vmemo.models.search import FactOutline
from vmemo.stores.sql.schema import facts
from vmemo.stores.values import dump, instant, metadata_of, micros, micros_or_none, names_of

Values = dict[str, str | int | float | None]
AnyRow = Row[*tuple[Any, ...]]
Cells = Sequence[Any]
"""A row's values by position."""


def bank_of(row: AnyRow) -> Bank:
    """A bank from its row; raise ValueError for a damaged one."""
    return Bank.model_construct(
        id=row.id,
        profile=Profile.model_validate_json(row.profile),
        embedder=row.embedder,
        dimension=_positive(row.dimension),
        created_at=instant(row.created_at),
    )


def _positive(value: int) -> int:
    if value < 1:
        raise ValueError(f"{value} is not a dimension")
    return value


def message_values(bank: int, message: Message) -> Values:
    """A message as a row."""
    return {
        "bank": bank,
        "id": message.id,
        "role": message.role,
        "speaker": message.speaker,
        "content": message.content,
        "timestamp": micros(message.timestamp),
        "document": message.document,
        "key": message.key,
        "tags": dump(message.tags),
        "metadata": dump(message.metadata),
        "recorded_at": micros(message.recorded_at),
        "state": message.state,
        "error": message.error,
        "attempts": 0 if message.error is None else 1,
        "failed_at": None if message.error is None else micros(message.recorded_at),
        "expires_at": micros_or_none(message.expires_at),
    }


def message_of(row: AnyRow) -> Message:
    """A message from its row."""
    return Message.model_construct(
        id=MessageId(row.id),
        role=row.role,
        content=row.content,
        speaker=row.speaker,
        timestamp=instant(row.timestamp),
        document=row.document,
        tags=names_of(row.tags),
        metadata=metadata_of(row.metadata),
        recorded_at=instant(row.recorded_at),
        state=row.state,
        key=row.key,
        error=row.error,
        expires_at=None if row.expires_at is None else instant(row.expires_at),
    )


def episode_values(bank: int, episode: Episode) -> Values:
    """An episode as a row."""
    return {
        "bank": bank,
        "id": episode.id,
        "title": episode.title,
        "narrative": episode.narrative,
        "started_at": micros(episode.started_at),
        "ended_at": micros(episode.ended_at),
        "previous": episode.previous,
        "recorded_at": micros(episode.recorded_at),
    }


def episode_of(row: AnyRow, messages: Sequence[MessageId]) -> Episode:
    """An episode from its row and its messages."""
    return Episode.model_construct(
        id=row.id,
        title=row.title,
        narrative=row.narrative,
        started_at=instant(row.started_at),
        ended_at=instant(row.ended_at),
        previous=row.previous,
        messages=tuple(messages),
        recorded_at=instant(row.recorded_at),
    )


def entity_values(bank: int, entity: Entity) -> Values:
    """An entity as a row."""
    return {
        "bank": bank,
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "aliases": dump(entity.aliases),
        "first_seen": micros(entity.first_seen),
        "last_seen": micros(entity.last_seen),
        "not_aliases": dump(entity.not_aliases),
    }


def entity_of(row: AnyRow, mentions: int) -> Entity:
    """An entity from its row and how many facts mention it."""
    return Entity.model_construct(
        id=EntityId(row.id),
        name=row.name,
        type=row.type,
        aliases=names_of(row.aliases),
        not_aliases=names_of(row.not_aliases),
        first_seen=instant(row.first_seen),
        last_seen=instant(row.last_seen),
        mentions=mentions,
    )


def mentions_of(rows: Iterable[Cells]) -> dict[int, list[Mention]]:
    """Mentions by the number of their fact, from rows of it, the entity's id, name and type, and `name_in_text`.

    Facts share them: most facts of a recall mention the same few entities.
    """
    found: dict[int, list[Mention]] = defaultdict(list)
    known: dict[str | tuple[str, str], Mention] = {}
    for fact, id, name, type, said in rows:
        key = id if said is None else (id, said)
        if key not in known:
            known[key] = Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": said or ""})
        found[fact].append(known[key])
    return found


def fact_values(bank: int, fact: Fact, revision: int) -> Values:
    """A fact as a row."""
    return {
        "bank": bank,
        "id": fact.id,
        "network": fact.network,
        "text": fact.text,
        "tokens": fact.tokens,
        "context": fact.context,
        "occurred_start": micros_or_none(fact.occurred_start),
        "occurred_end": micros_or_none(fact.occurred_end),
        "mentioned_at": micros(fact.mentioned_at),
        "valid_at": micros_or_none(fact.valid_at),
        "invalid_at": micros_or_none(fact.invalid_at),
        "recorded_at": micros(fact.recorded_at),
        "expired_at": micros_or_none(fact.expired_at),
        "confidence": fact.confidence,
        "importance": fact.importance,
        "access_count": fact.access_count,
        "supersedes": fact.supersedes,
        "tags": dump(fact.tags),
        "metadata": dump(fact.metadata),
        "engine": fact.engine,
        "instruction": int(fact.instruction),
        "pinned": int(fact.pinned),
        "reason": fact.reason,
        "expires_at": micros_or_none(fact.expires_at),
        "revision": revision,
    }


def fact_of(
    row: Cells,
    bank: BankId,
    entities: Sequence[Mention],
    sources: Sequence[Sequence[str]],
    embedding: tuple[float, ...] | None,
) -> Fact:
    """A fact from its row, its mentions and its sources by kind (message, context, episode, basis)."""
    return Fact.trusted(fact_fields(row, bank, entities, sources) | {"embedding": embedding})


def fact_fields(
    row: Cells, bank: BankId, entities: Sequence[Mention], sources: Sequence[Sequence[str]]
) -> dict[str, object]:
    """The fields of a fact without its embedding."""
    values: dict[str, object] = dict(zip(_FACT_FIELDS, row[2:-1], strict=True))
    for name, at in _FACT_TIMES:
        if row[at] is not None:
            values[name] = instant(row[at])
    values["bank"] = bank
    values["tags"] = names_of(row[_TAGS])
    values["metadata"] = metadata_of(row[_METADATA])
    values["instruction"] = row[_INSTRUCTION] == 1
    values["pinned"] = row[_PINNED] == 1
    values["entities"] = tuple(entities)
    values["messages"] = tuple(sources[0])
    values["context_from"] = sources[1][0] if sources[1] else None
    values["episodes"] = tuple(sources[2])
    values["basis"] = tuple(sources[3])
    values["embedding"] = None
    return values


def outline_of(id: FactId, row: Cells) -> FactOutline:
    """The outline of a fact from its other values in their order, the id of its first episode last."""
    network, tokens, engine, importance, mentioned_at, supersedes, has_basis, episode = row
    episodes = () if episode is None else (episode,)
    time, rests = instant(mentioned_at), has_basis == 1
    return FactOutline(id, network, tokens, engine, importance, time, supersedes, rests, episodes)


_COLUMNS = tuple(column.name for column in facts.columns)
_TAGS, _METADATA, _INSTRUCTION, _PINNED = map(_COLUMNS.index, ("tags", "metadata", "instruction", "pinned"))
_FACT_FIELDS = _COLUMNS[2:-1]
"""All columns but the numbers of fact and bank in front and the revision at the end."""
_FACT_TIMES = tuple(
    (name, at) for at, name in enumerate(_COLUMNS) if name.endswith("_at") or name.startswith("occurred")
)
