"""Conversion of extracted facts into drafts: full text, date ranges, and references to lines and known facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dateutil.relativedelta import relativedelta
from pydantic import JsonValue

from vmemo.models import Fact, FactId, Message
from vmemo.models.drafts import DraftCause, FactDraft, FoundName, Judgement
from vmemo.retain.llm_schemas import ExtractedFact
from vmemo.text.temporal import find_statement_times
from vmemo.text.tokens import terms

_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_WIDTHS = {4: relativedelta(years=1), 7: relativedelta(months=1), 10: relativedelta(days=1)}
MAX_JUDGEMENTS = 3
"""Known facts that one new fact may be judged against; more is a sign of an unreliable answer."""


def fact_text(fact: ExtractedFact) -> str:
    """Return `what`, followed by the other dimensions whose words it does not contain."""
    mentioned = set(terms(fact.what))
    text = fact.what.strip()
    for label, words in (("When", fact.when), ("Where", fact.where), ("Who", fact.who), ("Why", fact.why)):
        if words.strip() and not set(terms(words)) <= mentioned:
            text = f"{_with_full_stop(text)} {label}: {words.strip()}"
    return text


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "。", "！", "？", "…")) else f"{text}."


def date_range(start: str, end: str) -> tuple[datetime, datetime] | None:
    """Return the half-open interval of one or two ISO dates, months, years or times; None if neither is valid."""
    found = [interval for text in (start, end) if (interval := _interval(text)) is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _interval(text: str) -> tuple[datetime, datetime] | None:
    plain = text.strip()
    try:
        if _DAY.fullmatch(plain):
            first = datetime.fromisoformat(plain + "0001-01-01"[len(plain) :]).replace(tzinfo=UTC)
            return first, first + _WIDTHS[len(plain)]
        at = datetime.fromisoformat(plain)
        aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return aware.astimezone(UTC), aware.astimezone(UTC) + relativedelta(seconds=1)
    except (ValueError, OverflowError):
        return None


def sources(numbers: Sequence[int], lines: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of the given line numbers, without duplicates."""
    wanted = set(numbers)
    return tuple({m.id: m for n, m in enumerate(lines, start=1) if n in wanted}.values())


def known_fact_id(id: str, known: Sequence[Fact]) -> FactId | None:
    """Return the fact with this K number, or None."""
    digits = id.strip().lstrip("Kk").strip()
    place = int(digits) if digits.isdecimal() and len(digits) < 6 else 0
    return known[place - 1].id if 1 <= place <= len(known) else None


def draft(
    fact: ExtractedFact, messages: Sequence[Message], known: Sequence[Fact], *, key: str, expected: bool
) -> FactDraft:
    """Return an extracted fact as a draft. Its causes are added once all drafts have their keys."""
    last = max(messages, key=lambda message: message.timestamp)
    # The model has dated the fact already: its text is not altered.
    text = fact_text(fact)
    occurred = date_range(fact.start, fact.end)
    if occurred is None:
        times = find_statement_times(text, last.timestamp)
        bounded = ((t.broad_interval.start, t.broad_interval.end) for t in times)
        occurred = next(((start, end) for start, end in bounded if start is not None and end is not None), None)
    since = _interval(fact.since)
    opinion = fact.kind == "opinion"
    return FactDraft(
        key=key,
        network=fact.kind,
        text=text,
        mentioned_at=last.timestamp,
        recorded_at=max(message.recorded_at for message in messages),
        messages=tuple(message.id for message in messages),
        occurred=occurred,
        valid_at=since[0] if since else None,
        confidence=(fact.confidence if fact.confidence is not None else 0.5) if opinion else None,
        importance=fact.surprise if expected else 0.5,
        entities=tuple(FoundName(name=entity.name.strip(), type=entity.type) for entity in fact.entities),
        judgements=judgements(fact, known),
        tags=tuple(dict.fromkeys(tag for message in messages for tag in message.tags)),
        metadata=_common([message.metadata for message in messages]),
    )


def judgements(fact: ExtractedFact, known: Sequence[Fact]) -> tuple[Judgement, ...]:
    """Return the model's judgements of known facts that it was shown."""
    found = [
        Judgement(verdict=each.relation, fact=id, text=each.text, mistaken=each.mistaken)
        for each in fact.known
        if (id := known_fact_id(each.id, known)) is not None
    ]
    return tuple(found[:MAX_JUDGEMENTS])


def causes_by_fact(
    drafts: Mapping[int, FactDraft], facts: Sequence[ExtractedFact]
) -> dict[int, tuple[DraftCause, ...]]:
    """Return the causal relations of each fact, without references to itself or to unusable facts."""
    return {
        place: tuple(
            DraftCause(target=drafts[cause.fact].key, kind=cause.relation, strength=cause.strength)
            for cause in fact.causes
            if cause.fact in drafts and cause.fact != place
        )
        for place, fact in enumerate(facts, start=1)
        if place in drafts
    }


def _common(metadata: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return the metadata that all sources have in common."""
    first = dict(metadata[0])
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in metadata[1:])}
