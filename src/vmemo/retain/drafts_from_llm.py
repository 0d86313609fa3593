"""From what a model read to drafts: texts made whole, days made intervals, numbers made references."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dateutil.relativedelta import relativedelta
from pydantic import JsonValue

from vmemo.models import Fact, FactId, Message
from vmemo.models.drafts import DraftCause, FactDraft, FoundName, Judgement
from vmemo.retain.llm_schemas import ReadFact
from vmemo.text.temporal import annotate
from vmemo.text.tokens import terms

_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_WIDTHS = {4: relativedelta(years=1), 7: relativedelta(months=1), 10: relativedelta(days=1)}
MOST_REPLACED = 3
"""Known facts that one new fact may replace; a fact that claims to replace many is not to be trusted with it."""


def whole_text(fact: ReadFact) -> str:
    """One text of the five dimensions: what the sentence leaves out of the others is put behind it."""
    said = set(terms(fact.what))
    text = fact.what.strip()
    for label, words in (("When", fact.when), ("Where", fact.where), ("Who", fact.who), ("Why", fact.why)):
        if words.strip() and not set(terms(words)) <= said:
            text = f"{_ended(text)} {label}: {words.strip()}"
    return text


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "。", "！", "？", "…")) else f"{text}."


def stretch(start: str, end: str) -> tuple[datetime, datetime] | None:
    """The half-open interval of one or two days, months, years or moments; None if neither can be read."""
    found = [moment for text in (start, end) if (moment := _moment(text)) is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _moment(text: str) -> tuple[datetime, datetime] | None:
    plain = text.strip()
    try:
        if _DAY.fullmatch(plain):
            first = datetime.fromisoformat(plain + "0001-01-01"[len(plain) :]).replace(tzinfo=UTC)
            return first, first + _WIDTHS[len(plain)]
        moment = datetime.fromisoformat(plain)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC), aware.astimezone(UTC) + relativedelta(seconds=1)
    except (ValueError, OverflowError):
        return None


def sources(numbers: Sequence[int], lines: Sequence[Message]) -> tuple[Message, ...]:
    """The messages of some line numbers, each once, in their order."""
    wanted = set(numbers)
    return tuple({m.id: m for n, m in enumerate(lines, start=1) if n in wanted}.values())


def reference(id: str, known: Sequence[Fact]) -> FactId | None:
    """The fact behind a K number."""
    digits = id.strip().lstrip("Kk").strip()
    place = int(digits) if digits.isdecimal() and len(digits) < 6 else 0
    return known[place - 1].id if 1 <= place <= len(known) else None


def draft(fact: ReadFact, told: Sequence[Message], known: Sequence[Fact], *, key: str, expected: bool) -> FactDraft:
    """A read fact as a draft; its causes are added once all drafts have their keys."""
    last = max(told, key=lambda message: message.timestamp)
    text, times = annotate(whole_text(fact), last.timestamp)
    occurred = stretch(fact.start, fact.end)
    if occurred is None:
        bounded = ((t.broad_interval.start, t.broad_interval.end) for t in times)
        occurred = next(((start, end) for start, end in bounded if start is not None and end is not None), None)
    since = _moment(fact.since)
    opinion = fact.kind == "opinion"
    return FactDraft(
        key=key,
        network=fact.kind,
        text=text,
        mentioned_at=last.timestamp,
        recorded_at=max(message.recorded_at for message in told),
        messages=tuple(message.id for message in told),
        occurred=occurred,
        valid_at=since[0] if since else None,
        confidence=(fact.confidence if fact.confidence is not None else 0.5) if opinion else None,
        importance=fact.surprise if expected else 0.5,
        entities=tuple(FoundName(name=entity.name.strip(), type=entity.type) for entity in fact.entities),
        judgements=judgements(fact, known),
        tags=tuple(dict.fromkeys(tag for message in told for tag in message.tags)),
        metadata=_shared([message.metadata for message in told]),
    )


def judgements(fact: ReadFact, known: Sequence[Fact]) -> tuple[Judgement, ...]:
    """What the model said about known facts, as far as it names facts that it was shown."""
    found = [
        Judgement(verdict=each.relation, fact=id, text=each.text, mistaken=each.mistaken)
        for each in fact.known
        if (id := reference(each.id, known)) is not None
    ]
    return tuple(found[:MOST_REPLACED])


def with_causes(drafts: Mapping[int, FactDraft], facts: Sequence[ReadFact]) -> dict[int, tuple[DraftCause, ...]]:
    """Causal relations by the place of their fact; those that lead to themselves or to nothing are left out."""
    return {
        place: tuple(
            DraftCause(target=drafts[cause.fact].key, kind=cause.relation, strength=cause.strength)
            for cause in fact.causes
            if cause.fact in drafts and cause.fact != place
        )
        for place, fact in enumerate(facts, start=1)
        if place in drafts
    }


def _shared(metadata: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """What all sources say alike."""
    first = dict(metadata[0])
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in metadata[1:])}
