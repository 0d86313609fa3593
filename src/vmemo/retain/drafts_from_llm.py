"""Conversion of extracted facts into drafts: full text, date ranges, and references to lines and known facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dateutil.relativedelta import relativedelta
from pydantic import JsonValue

from vmemo.models import EntityType, Fact, Message
from vmemo.models.drafts import DraftCause, FactDraft, FoundName, Judgement
from vmemo.retain.llm_schemas import ExtractedFact, ExtractedNames
from vmemo.text.injection import overrides_rules
from vmemo.text.names.fold import fold_name
from vmemo.text.tokens import terms

_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_WIDTHS = {4: relativedelta(years=1), 7: relativedelta(months=1), 10: relativedelta(days=1)}
_PART = re.compile(r"[,;] | and ")
_WEEKDAYS = frozenset(terms("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"))
MAX_JUDGEMENTS = 3
"""Known facts that one new fact may be judged against; more is a sign of an unreliable answer."""


def fact_text(fact: ExtractedFact) -> str:
    """Return `what`, followed by the parts of the other dimensions that it does not mention."""
    text = fact.what.strip()
    for label, words in (("When", fact.when), ("Where", fact.where), ("Who", fact.who), ("Why", fact.why)):
        missing = [part for part in _PART.split(" ".join(words.split()).strip(" .")) if not _is_mentioned(part, text)]
        if missing:
            text = f"{_with_full_stop(text)} {label}: {', '.join(missing)}"
    return text


def _is_mentioned(part: str, text: str) -> bool:
    """Return True if at least half of a part's terms are in the text. A weekday follows from its date."""
    wanted = {term for term in terms(part) if term not in _WEEKDAYS} or set(terms(part))
    return 2 * len(wanted & set(terms(text))) >= len(wanted)


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


def known_fact(id: str, known: Sequence[Fact]) -> Fact | None:
    """Return the fact with this K number, or None."""
    digits = id.strip().lstrip("Kk").strip()
    place = int(digits) if digits.isdecimal() and len(digits) < 6 else 0
    return known[place - 1] if 1 <= place <= len(known) else None


def draft(
    fact: ExtractedFact, messages: Sequence[Message], names: Sequence[FoundName], known: Sequence[Fact], *, key: str
) -> FactDraft:
    """Return an extracted fact as a draft. Its causes are added once all drafts have their keys.

    The model has dated the fact: its text is neither altered nor searched for dates.
    """
    last = max(messages, key=lambda message: message.timestamp)
    text = fact_text(fact)
    since, until = _interval(fact.since), _interval(fact.until)
    opinion = fact.kind == "opinion"
    return FactDraft(
        key=key,
        network="world" if fact.kind == "instruction" else fact.kind,
        text=text,
        mentioned_at=last.timestamp,
        recorded_at=max(message.recorded_at for message in messages),
        messages=tuple(message.id for message in messages),
        occurred=date_range(fact.start, fact.end),
        valid_at=since[0] if since else None,
        invalid_at=until[1] if until else None,
        confidence=(fact.confidence if fact.confidence is not None else 0.5) if opinion else None,
        entities=names_in(text, names),
        judgements=judgements(fact, known),
        instruction=fact.kind == "instruction" and not overrides_rules(text),
        tags=tuple(dict.fromkeys(tag for message in messages for tag in message.tags)),
        metadata=_common([message.metadata for message in messages]),
    )


def found_names(names: ExtractedNames) -> tuple[FoundName, ...]:
    """Return the names of an answer with their types."""
    by_type: dict[EntityType, list[str]] = {
        "PERSON": names.person,
        "ORGANIZATION": names.organization,
        "LOCATION": names.location,
        "PRODUCT": names.product,
        "EVENT": names.event,
        "CONCEPT": names.concept,
        "OTHER": names.other,
    }
    found = {name.strip(): FoundName(name=name.strip(), type=type) for type, all in by_type.items() for name in all}
    return tuple(each for name, each in found.items() if fold_name(name))


def names_in(text: str, names: Sequence[FoundName]) -> tuple[FoundName, ...]:
    """Return the names that a text contains, a person's also by a part that no other name has."""
    return tuple(found for found in names if _contains(text, found.name) or _names_part(text, found, names))


def _contains(text: str, name: str) -> bool:
    return f" {fold_name(name)} " in f" {fold_name(text)} "


def _names_part(text: str, found: FoundName, names: Sequence[FoundName]) -> bool:
    if found.type != "PERSON":
        return False
    others = {part for each in names if each is not found for part in each.name.split()}
    parts = [part for part in found.name.split() if len(part) > 2 and part[0].isupper() and part not in others]
    return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) for part in parts)


def judgements(fact: ExtractedFact, known: Sequence[Fact]) -> tuple[Judgement, ...]:
    """Return the model's judgements of known facts that it was shown."""
    found = [
        Judgement(verdict="supersede", fact=old.id, keep=tuple(each.keep), mistaken=each.mistaken)
        for each in fact.supersedes
        if (old := known_fact(each.id, known)) is not None
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
