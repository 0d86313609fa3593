"""Topics of an extraction: the messages and facts of each, and the limit of facts per topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vmemo.models import MessageId
from vmemo.models.drafts import FactDraft
from vmemo.retain.drafts_from_llm import fact_text
from vmemo.retain.extraction_input import ExtractionLine
from vmemo.retain.llm_schemas import ExtractedFact, ExtractedTopic, Extraction

MAX_TOPIC_FACTS = 5
"""Facts per topic in the narrative style."""
LINES_PER_TOPIC = 8
"""Lines that count as one topic if the model names none."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTopic:
    """Messages of one topic with a title and a narrative."""

    title: str
    narrative: str
    messages: tuple[MessageId, ...]


def topic_by_line(answer: Extraction, lines: int) -> list[int]:
    """Return the topic of each line: its first one, and for an unassigned line that of the line before it."""
    if not answer.topics:
        return [number // LINES_PER_TOPIC for number in range(lines)]
    chosen: dict[int, int] = {}
    for place, topic in enumerate(answer.topics):
        for number in topic.lines:
            chosen.setdefault(number, place)
    found: list[int] = []
    for number in range(1, lines + 1):
        found.append(chosen.get(number, found[-1] if found else 0))
    return found


def episode_topics(
    answer: Extraction, drafts: Sequence[FactDraft], lines: Sequence[ExtractionLine]
) -> tuple[EpisodeTopic, ...]:
    """Return the topics with their messages; their facts are the narrative."""
    members: dict[int, dict[MessageId, None]] = {}
    placed: dict[MessageId, int] = {}
    for line, topic in zip(lines, topic_by_line(answer, len(lines)), strict=True):
        if line.message.id not in placed:
            placed[line.message.id] = topic
            members.setdefault(topic, {})[line.message.id] = None
    texts: dict[int, list[str]] = {}
    for draft in drafts:
        texts.setdefault(placed[draft.messages[0]], []).append(draft.text)
    return tuple(
        EpisodeTopic(
            title=topic.title.strip()[:200],
            narrative=" ".join(texts.get(place, ())),
            messages=tuple(members[place]),
        )
        for place, topic in enumerate(answer.topics)
        if place in members
    )


def divide_topics(answer: Extraction, lines: int) -> Extraction:
    """Return the answer with each topic that has too many facts divided between two of its lines."""
    topics: list[ExtractedTopic] = []
    facts = _facts_by_topic(answer, lines)
    topic_of = topic_by_line(answer, lines)
    for place, topic in enumerate(answer.topics):
        own = [number for number in range(1, lines + 1) if topic_of[number - 1] == place]
        starts = Counter(_first_line(answer.facts[at], lines) for at in facts.get(place, ()))
        topics += [topic.model_copy(update={"lines": part}) for part in _parts(own, starts)]
    return answer.model_copy(update={"topics": topics})


def _parts(lines: Sequence[int], facts: Mapping[int, int]) -> list[list[int]]:
    """Divide lines into runs with few enough facts, as far as a single line has no more."""
    parts: list[list[int]] = [[]]
    count = 0
    for line in lines:
        if count and count + facts.get(line, 0) > MAX_TOPIC_FACTS:
            parts.append([])
            count = 0
        parts[-1].append(line)
        count += facts.get(line, 0)
    return [part for part in parts if part]


def excess_problem(answer: Extraction, lines: int) -> str | None:
    """Return the lines with too many facts as a problem to correct; a topic of several lines can be divided."""
    starts = Counter(_first_line(fact, lines) for fact in answer.facts if fact.kind != "instruction")
    found = [
        f"line {line} has {count} facts: combine them into {MAX_TOPIC_FACTS} at most"
        for line, count in starts.items()
        if count > MAX_TOPIC_FACTS
    ]
    return "; ".join(found) or None


def combine_excess(answer: Extraction, lines: int) -> Extraction:
    """Return the answer with at most MAX_TOPIC_FACTS per topic, and nothing left out.

    A topic with more is divided between its lines; those of a single line are joined.
    """
    answer = divide_topics(answer, lines)
    groups: list[list[int]] = []
    for numbers in _facts_by_topic(answer, lines).values():
        groups += _combined([[number] for number in numbers], answer.facts)
    groups += [[number] for number, fact in enumerate(answer.facts) if fact.kind == "instruction"]
    groups.sort()
    if len(groups) == len(answer.facts):
        return answer
    place = {number: at for at, group in enumerate(groups, start=1) for number in group}
    facts = [_renumbered(_joined([answer.facts[n] for n in group]), place) for group in groups]
    return answer.model_copy(update={"facts": facts})


def _facts_by_topic(answer: Extraction, lines: int) -> dict[int, list[int]]:
    """Return the indexes of each topic's facts, by their first lines.

    Standing instructions count for none: each is a fact of its own.
    """
    topics = topic_by_line(answer, lines)
    found: dict[int, list[int]] = {}
    for at, fact in enumerate(answer.facts):
        if fact.kind != "instruction":
            found.setdefault(topics[_first_line(fact, lines) - 1], []).append(at)
    return found


def _first_line(fact: ExtractedFact, lines: int) -> int:
    return min((line for line in fact.lines if 1 <= line <= lines), default=1)


def _combined(groups: list[list[int]], facts: Sequence[ExtractedFact]) -> list[list[int]]:
    """Join the two neighbours of one kind that share a line, or else are shortest together, until few enough remain."""
    while len(groups) > MAX_TOPIC_FACTS:
        pairs = [at for at in range(len(groups) - 1) if facts[groups[at][0]].kind == facts[groups[at + 1][0]].kind]
        if not pairs:
            break
        best = min(pairs, key=lambda at: _cost(groups[at], groups[at + 1], facts))
        groups[best : best + 2] = [[*groups[best], *groups[best + 1]]]
    return groups


def _cost(one: Sequence[int], other: Sequence[int], facts: Sequence[ExtractedFact]) -> tuple[bool, int]:
    lines = ({line for n in group for line in facts[n].lines} for group in (one, other))
    return next(lines).isdisjoint(next(lines)), sum(len(facts[n].what) for n in (*one, *other))


def _joined(facts: Sequence[ExtractedFact]) -> ExtractedFact:
    first = facts[0]
    if len(facts) == 1:
        return first
    sentences = [text if text.endswith((".", "!", "?")) else f"{text}." for text in map(fact_text, facts)]
    return first.model_copy(
        update={
            "what": " ".join(sentences),
            **dict.fromkeys(("when", "where", "who", "why"), ""),
            "start": min((fact.start for fact in facts if fact.start), default=""),
            "end": max((fact.end or fact.start for fact in facts), default=""),
            "lines": list(dict.fromkeys(line for fact in facts for line in fact.lines)),
            "causes": [cause for fact in facts for cause in fact.causes],
            "supersedes": [known for fact in facts for known in fact.supersedes],
        }
    )


def _renumbered(fact: ExtractedFact, place: Mapping[int, int]) -> ExtractedFact:
    causes = [
        cause.model_copy(update={"fact": place[cause.fact - 1]}) for cause in fact.causes if cause.fact - 1 in place
    ]
    return fact.model_copy(update={"causes": causes})
