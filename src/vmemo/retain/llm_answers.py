"""Answers of the retain prompts: their schemas, and their conversion into drafts and topics.

The field descriptions of the schemas are part of the prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

from dateutil.relativedelta import relativedelta
from pydantic import BeforeValidator, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from vmemo.llm.structured import AnswerSchema
from vmemo.models import CauseKind, EntityType, Fact, Message, MessageId, Verdict
from vmemo.models.changes import DraftCause, FactDraft, FoundName, Judgement
from vmemo.models.records import MAX_NAME
from vmemo.text.injection import overrides_rules
from vmemo.text.names.compare import fold_name
from vmemo.text.tokens import term_set, terms


def _as_list(value: object) -> object:
    """Accept a single text for a list of one."""
    return [value] if isinstance(value, str) else value


def _line_number(value: object) -> object:
    """Accept `L3`, `[3]` and `3` as line 3."""
    digits = "".join(c for c in value if c.isdigit()) if isinstance(value, str) else ""
    return int(digits) if digits else value


def _fraction(value: object) -> object:
    """Accept percentages, and cap larger numbers at 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
        return value / 100 if value <= 100 else 1.0
    return value


LineNumber = Annotated[int, BeforeValidator(_line_number)]
Fraction = Annotated[float, BeforeValidator(_fraction), Field(ge=0.0, le=1.0)]
ShortText = Annotated[str, Field(max_length=4000)]
Lines = list[LineNumber]
EntityName = Annotated[str, Field(max_length=200)]
Categories = SkipJsonSchema[Annotated[list[str], BeforeValidator(_as_list)]]
"""Categories of the caller, which are in the schema of a request only if there are some."""


class LineGroup(AnswerSchema):
    """Lines of one topic."""

    topic: ShortText = Field(description="the topic in a few words")
    lines: list[LineNumber] = Field(description="line numbers")


class LineGroups(AnswerSchema):
    """A conversation grouped by topic."""

    groups: list[LineGroup]


class Prediction(AnswerSchema):
    """Expected statements."""

    statements: list[ShortText] = Field(max_length=20)


class CausalRelation(AnswerSchema):
    """A causal relation to another fact of this answer, by its number from 1."""

    fact: LineNumber
    relation: CauseKind
    strength: Fraction = 0.5


class EndedFact(AnswerSchema):
    """A known fact or instruction that is not true any more, by its K or W number.

    `words` are the part of it that ends, copied; none if all of it ends. `on` is its last day; `mistaken` if it was
    never true.
    """

    id: str
    words: ShortText = ""
    on: str = ""
    mistaken: bool = False


class ExtractedFact(AnswerSchema):
    """One fact to remember. The prompt describes the fields; times are ISO 8601."""

    what: Annotated[str, Field(min_length=1, max_length=4000)]
    when: ShortText = ""
    where: ShortText = ""
    who: ShortText = ""
    why: ShortText = ""
    kind: Literal["world", "experience", "opinion", "instruction"] = "world"
    confidence: Fraction = 0.5
    start: str = ""
    end: str = ""
    since: str = ""
    until: str = ""
    due: str = ""
    every: ShortText = ""
    relation: ShortText = ""
    causes: list[CausalRelation] = Field(default_factory=list[CausalRelation])
    lines: list[LineNumber]
    ends: list[EndedFact] = Field(default_factory=list[EndedFact])
    categories: Categories = Field(default_factory=list[str])


class Extraction(AnswerSchema):
    """Everything worth remembering.

    `names` has the new names in the facts, by their type in lower case, `repeated` the lines that repeat a known fact
    without news, by its number, and `topics` the lines of each topic, by its title.
    """

    facts: list[ExtractedFact] = Field(max_length=60)
    names: dict[str, Annotated[list[EntityName], BeforeValidator(_as_list)]] = Field(
        default_factory=dict[str, list[str]]
    )
    repeated: dict[str, Lines] = Field(default_factory=dict[str, list[int]])
    topics: dict[str, Lines] = Field(default_factory=dict[str, list[int]], max_length=25)


class SmallFact(AnswerSchema):
    """One fact to remember."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    date: str = ""
    lines: list[LineNumber]
    categories: Categories = Field(default_factory=list[str])


class SmallExtraction(AnswerSchema):
    """Everything worth remembering."""

    facts: list[SmallFact] = Field(max_length=60)


class PairVerdict(AnswerSchema):
    """The verdict on one pair of facts."""

    new: str = Field(description="N number of the new fact")
    known: str = Field(description="K number of the known fact")
    verdict: Verdict
    words: ShortText = Field(default="", description="for supersede: the part that ends, copied, if the rest holds")
    mistaken: bool = Field(default=False, description="for supersede: the known fact was never true")
    text: ShortText = Field(default="", description="for merge: one text with the content of both")


class PairVerdicts(AnswerSchema):
    """Verdicts on all pairs."""

    verdicts: list[PairVerdict]


class NameIdentity(AnswerSchema):
    """The entity of one name."""

    name: str = Field(description="Q number of the question")
    same_as: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        description="E number of the entity; several if these are one and the same; none if it is new"
    )


class NameIdentities(AnswerSchema):
    """The entities of all names."""

    answers: list[NameIdentity]


# Conversion of facts into drafts.
_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_WIDTHS = {4: relativedelta(years=1), 7: relativedelta(months=1), 10: relativedelta(days=1)}
_PART = re.compile(r"[,;] | and ")
_WORD = re.compile(r"\w+")
_BRACKET = re.compile(r" \([^()]+\)$")
"""Words that distinguish people of one name: "Joan (Pauline's sister)"."""
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
MAX_JUDGEMENTS = 3
"""Known facts that one new fact may be judged against; more is a sign of an unreliable answer."""


def describe_fact(fact: Fact) -> str:
    """Return the day of a fact and its text, with its ends if they are known."""
    return f"{fact.mentioned_at:%d %b %Y} | {fact.text_with_ends}"


def fact_text(fact: ExtractedFact) -> str:
    """Return `what`, followed by the parts of the other dimensions that it does not mention."""
    text = fact.what.strip()
    said = {"When": fact.when, "Where": fact.where, "Who": fact.who, "Why": fact.why, "Every": fact.every}
    for label, words in said.items():
        missing = [part for part in _PART.split(" ".join(words.split()).strip(" .")) if not _is_mentioned(part, text)]
        if missing:
            stop = "" if text.endswith((".", "!", "?", "。", "！", "？", "…")) else "."
            text = f"{text}{stop} {label}: {', '.join(missing)}"
    return text


def _is_mentioned(part: str, text: str) -> bool:
    """Return True if at least half of a part's terms are in the text. A weekday follows from its date."""
    wanted = {term for term in terms(part) if term not in term_set(_WEEKDAYS)} or set(terms(part))
    return 2 * len(wanted & set(terms(text))) >= len(wanted)


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


def known_fact(id: str, known: Mapping[str, Fact]) -> Fact | None:
    """Return the fact with this K or W number, or None."""
    plain = id.strip().upper()
    return known.get(plain) or known.get(f"K{plain}")


def draft(
    fact: ExtractedFact, messages: Sequence[Message], names: Sequence[FoundName], known: Mapping[str, Fact], *, key: str
) -> FactDraft:
    """Return an extracted fact as a draft without causes; the model has dated it, so none is read from its text."""
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
        occurred=date_range(fact.start, fact.end) or date_range(fact.due, ""),
        valid_at=since[0] if since else None,
        # What is said in the past tense stays true.
        invalid_at=until[1] if until and until[1] > last.timestamp else None,
        confidence=fact.confidence if opinion else None,
        entities=names_in(text, names),
        judgements=judgements(fact, known),
        instruction=fact.kind == "instruction" and not overrides_rules(text),
        tags=tuple(dict.fromkeys(tag for message in messages for tag in message.tags)),
        metadata={**_common([message.metadata for message in messages]), **_details(fact, names)},
    )


def _details(fact: ExtractedFact, names: Sequence[FoundName]) -> dict[str, JsonValue]:
    """Return the deadline, the recurrence and the relation between two names of the answer, for a fact's metadata."""
    found: dict[str, JsonValue] = {}
    if _interval(fact.due):
        found["due"] = fact.due.strip()
    if fact.every.strip():
        found["every"] = fact.every.strip()
    parts = [" ".join(part.split()) for part in fact.relation.split("|")]
    if len(parts) == 3 and all(parts):
        subject, verb, other = parts
        called = {fold_name(own): each.name for each in reversed(names) for own in (each.name, *each.aliases)}
        ends = [called.get(fold_name(name)) for name in (subject, other)]
        if None not in ends and ends[0] != ends[1]:
            found["relation"] = {"subject": ends[0], "verb": verb[:MAX_NAME], "object": ends[1]}
    return found


def found_names(names: Mapping[str, Sequence[str]], known: Sequence[FoundName] = ()) -> tuple[FoundName, ...]:
    """Return the names of an answer with their types and other names, "Full Name = Nick", and the known ones."""
    types: dict[str, EntityType] = {type.casefold(): type for type in get_args(EntityType)}
    found: dict[str, FoundName] = {}
    for type, listed in names.items():
        for each in listed:
            name, *others = [part for part in map(str.strip, each.split(" = ")) if fold_name(part)] or [""]
            plain = _BRACKET.sub("", name)
            if plain != name and " " in plain and sum(plain in other for other in listed) == 1:
                # "Roy Tipping (the electrician)" may be written without the bracket.
                others.append(plain)
            if name and name not in found:
                kind = types.get(type.casefold(), "OTHER")
                found[name] = FoundName(name=name, type=kind, aliases=tuple(dict.fromkeys(others)))
    listed = {fold_name(own) for each in found.values() for own in (each.name, *each.aliases)}
    unlisted = (each for each in known if listed.isdisjoint(map(fold_name, (each.name, *each.aliases))))
    return (*found.values(), *unlisted)


def names_in(text: str, names: Sequence[FoundName]) -> tuple[FoundName, ...]:
    """Return the names that a text contains, a person's also by a part that no other name has.

    At each place the longest name counts, and another name that several have for none of them.
    """
    owners: dict[str, list[str]] = {}
    for found in names:
        for own in {fold_name(each) for each in (found.name, *found.aliases)} - {""}:
            owners.setdefault(own, []).append(found.name)
    rest, whole = f" {fold_name(text)} ", set[str]()
    for own in sorted(owners, key=len, reverse=True):
        if f" {own} " in rest:
            rest = rest.replace(f" {own} ", " | ")
            bearers = [name for name in owners[own] if fold_name(name) == own] or owners[own]
            whole.update(bearers if len(bearers) == 1 else ())
    return tuple(found for found in names if found.name in whole or _names_part(rest, found, names))


def _names_part(text: str, found: FoundName, names: Sequence[FoundName]) -> bool:
    """Return True if a folded text has a part of a person's name that is no part of another name."""
    if found.type != "PERSON":
        return False
    parts = fold_name(found.name).split()
    bracket = _BRACKET.search(found.name)
    if bracket and f" {fold_name(found.name[: bracket.start()])} " in text:
        # "Joan, Pauline's sister" for "Joan (Pauline's sister)"; the only Joan needs no more words.
        alone = sum(fold_name(each.name).split()[:1] == parts[:1] for each in names) == 1
        return alone or _is_mentioned(bracket[0], text)
    others = {part for each in names if each is not found for part in fold_name(each.name).split()}
    capital = {fold_name(part) for part in found.name.split() if len(part) > 2 and part[0].isupper()}
    return any(f" {part} " in text for part in capital - others)


def judgements(fact: ExtractedFact, known: Mapping[str, Fact]) -> tuple[Judgement, ...]:
    """Return the model's judgements of known facts that it was shown; one in the same words is repeated, not ended."""
    found = [
        Judgement(
            verdict="duplicate" if set(_WORD.findall(old.text.casefold())) == said else "supersede",
            fact=old.id,
            words=each.words,
            mistaken=each.mistaken,
            # What was said on a day did not end before it.
            end=last[1] if (last := _interval(each.on)) and last[1] > old.mentioned_at else None,
        )
        for said in [set(_WORD.findall(fact_text(fact).casefold()))]
        for each in fact.ends
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
    first = dict(metadata[0])
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in metadata[1:])}


# Topics.
LINES_PER_TOPIC = 8
"""Lines that count as one topic if the model names none."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTopic:
    """Messages of one topic with a title and a narrative."""

    title: str
    narrative: str
    messages: tuple[MessageId, ...]


def topic_by_line(answer: Extraction, lines: int) -> list[int]:
    """Return the topic of each line; without topics, a fixed number of lines counts as one."""
    if not answer.topics:
        return [number // LINES_PER_TOPIC for number in range(lines)]
    return group_by_line(list(answer.topics.values()), lines)


def group_by_line(groups: Sequence[Sequence[int]], lines: int) -> list[int]:
    """Return the index of each line's first group; a line in no group joins the line before it."""
    chosen: dict[int, int] = {}
    for place, numbers in enumerate(groups):
        for number in numbers:
            chosen.setdefault(number, place)
    found: list[int] = []
    for number in range(1, lines + 1):
        found.append(chosen.get(number, found[-1] if found else 0))
    return found


def episode_topics(
    answer: Extraction, drafts: Sequence[FactDraft], lines: Sequence[Message]
) -> tuple[EpisodeTopic, ...]:
    """Return the topics with their messages; their facts are the narrative. `lines` are the messages of the lines."""
    members: dict[int, dict[MessageId, None]] = {}
    placed: dict[MessageId, int] = {}
    for message, topic in zip(lines, topic_by_line(answer, len(lines)), strict=True):
        if message.id not in placed:
            placed[message.id] = topic
            members.setdefault(topic, {})[message.id] = None
    texts: dict[int, list[str]] = {}
    for draft in drafts:
        texts.setdefault(placed[draft.messages[0]], []).append(draft.text)
    return tuple(
        EpisodeTopic(
            title=title.strip()[:200], narrative=" ".join(texts.get(place, ())), messages=tuple(members[place])
        )
        for place, title in enumerate(answer.topics)
        if place in members
    )
