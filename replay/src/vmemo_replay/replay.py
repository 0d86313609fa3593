"""A replay: a memory of each configuration is asked before each turn of a user, and knows only what was said before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from vmemo import Fact, Hit, Memory, PromptContext, Recalled
from vmemo.errors import InvalidInput
from vmemo.models import FactId
from vmemo.models.prompt_context import SECTIONS
from vmemo.models.records import Instant, utc_now
from vmemo.models.requests import MAX_QUERY
from vmemo.models.results import Usage
from vmemo.providers import count_tokens
from vmemo.text.tokens import terms
from vmemo_replay.configuration import Configuration
from vmemo_replay.player import Pace, Player, all_facts
from vmemo_replay.report import (
    Column,
    Given,
    GivenHit,
    HitFlag,
    KnownFact,
    Prices,
    Report,
    Said,
    Totals,
    Turn,
    TurnFlag,
    percentile,
)
from vmemo_replay.transcripts import Line, Transcript

NOISE_SHARE = 0.4
"""A hit with less than this share of the best score is noise; the relevant facts of a context have at least that."""
STALE_SHARE = 0.6
"""A hit with an outdated claim counts if it has this share of the best score: a precise recall would return it."""
MOST_TURNS = 1_000
"""Turns to ask at by default; a replay of 5,000 messages then takes about 260 seconds of CPU time on a slow machine."""
SHOWN = 10
"""Hits of a turn that a report holds."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """The turns to ask at, and what to ask."""

    first: int | None = None
    """Ask at the first turns only; the rest is not retained."""
    last: int | None = None
    """Ask at the last of these turns only; what was said before is retained."""
    most: int = MOST_TURNS
    """Ask at no more turns than this: at questions first, and at others at even distances."""
    threshold: float = 0.5
    """Probability below which a question counts as unanswerable."""
    reflect: bool = True
    """Also ask for answers, of configurations with a language model."""
    pace: Pace | None = None
    """By default a configuration with a language model derives facts when a session ends, the local engine at once."""
    prices: Prices | None = None
    keep: Path | None = None
    """A new database file for the banks; None keeps nothing."""

    def turns(self, transcript: Transcript) -> list[Line]:
        """Return the turns to ask at, in their order."""
        asked = transcript.turns[: self.first]
        asked = asked if self.last is None else asked[-self.last :]
        if len(asked) <= self.most:
            return asked
        questions = [line for line in asked if is_question(line)]
        others = [line for line in asked if not is_question(line)]
        chosen = _evenly(questions, min(self.most, len(questions)))
        chosen += _evenly(others, self.most - len(chosen))
        return sorted(chosen, key=lambda line: line.number)


def _evenly(lines: Sequence[Line], count: int) -> list[Line]:
    """Return a number of lines at even distances."""
    return [lines[number * len(lines) // count] for number in range(count)]


OnTurn = Callable[[str, int], None]
"""Called with a configuration's label and the number of its turns that are done."""


async def replay(
    transcript: Transcript,
    configurations: Sequence[Configuration],
    options: ReplayOptions,
    *,
    files: Sequence[str],
    origin: str | None,
    on_turn: OnTurn = lambda label, done: None,
) -> Report:
    """Replay a transcript with each configuration, one after the other."""
    asked = options.turns(transcript)
    if options.first is not None and asked:
        # What follows the last turn can't be asked about.
        transcript = replace(transcript, lines=transcript.lines[: asked[-1].number + 1])
    messages = await asyncio.to_thread(lambda: [said(line) for line in transcript.lines])
    before = _running_tokens(messages)
    replayed = [await _play(transcript, asked, each, options, on_turn) for each in configurations]
    columns, given = zip(*replayed, strict=True) if replayed else ((), ())
    turns = [
        _turn(line, before[line.number], [column[n] for column in given], [c.facts for c in columns])
        for n, line in enumerate(asked)
    ]
    return Report(
        created_at=utc_now().replace(microsecond=0),
        files=tuple(files),
        origin=origin,
        messages=tuple(messages),
        turns=tuple(turns),
        columns=tuple(_with_totals(each, n, turns, options.prices) for n, each in enumerate(columns)),
        prices=options.prices,
        threshold=options.threshold,
        notes=(*transcript.notes, *_left_out(len(asked), options, transcript)),
    )


def _left_out(asked: int, options: ReplayOptions, transcript: Transcript) -> list[str]:
    """Return a remark if there were more turns than are asked at."""
    wanted = len(replace(options, most=len(transcript.lines)).turns(transcript))
    if wanted == asked:
        return []
    return [
        f"Asked at {asked:,} of {wanted:,} turns: questions first, others at even distances; --most sets the number."
    ]


def said(line: Line) -> Said:
    """Return a line as a report shows it."""
    message = line.message
    return Said(
        id=line.id,
        role=message.author,
        speaker=message.speaker,
        time=line.time,
        session=line.session,
        text=message.content,
        tokens=count_tokens(message.content),
    )


def _running_tokens(messages: Sequence[Said]) -> list[int]:
    before, total = list[int](), 0
    for message in messages:
        before.append(total)
        total += message.tokens
    return before


async def _play(
    transcript: Transcript,
    asked: Sequence[Line],
    configuration: Configuration,
    options: ReplayOptions,
    on_turn: OnTurn,
) -> tuple[Column, list[Given]]:
    """Return the facts and totals of a configuration, and what it gave at each turn."""
    started = time.perf_counter()
    url = "sqlite:///:memory:" if options.keep is None else f"sqlite:///{options.keep.absolute()}"
    pace: Pace = options.pace or ("turn" if configuration.llm is None else "session")
    async with configuration.memory(url, configuration.label) as memory:
        player, given = Player(memory, transcript.lines, pace), list[Given]()
        for done, line in enumerate(asked, start=1):
            await player.advance(line.number)
            given.append(await _ask(memory, line, configuration, options))
            on_turn(configuration.label, done)
        await player.finish()
        facts = await known_facts(memory, {hit.fact for each in given for hit in each.hits})
        embedder = (await memory.status()).embedder
    usage = player.usage
    totals = Totals(
        calls=usage.calls,
        retain_cents=_cents(usage, options.prices),
        seconds=round(time.perf_counter() - started, 1),
    )
    column = Column(
        label=configuration.label, engine=configuration.engine, embedder=embedder, facts=tuple(facts), totals=totals
    )
    known = {fact.id: fact for fact in facts}
    return column, [_with_hindsight(each, line, known) for each, line in zip(given, asked, strict=True)]


async def _ask(memory: Memory, line: Line, configuration: Configuration, options: ReplayOptions) -> Given:
    query, now, most = query_of(line), line.time, configuration.max_tokens
    if not query:
        return Given()
    started = time.perf_counter()
    found = await memory.recall(query, max_tokens=most, now=now, precise=configuration.precise)
    recalled = time.perf_counter()
    context = await _context(memory, query, line, most)
    done = time.perf_counter()
    given = _given(found, context, line, options.threshold).model_copy(
        update={"milliseconds": _ms(recalled - started), "context_milliseconds": _ms(done - recalled)}
    )
    cents = 0.0 if options.prices is None else options.prices.cents(context.tokens)
    if configuration.llm is None or not options.reflect:
        return given.model_copy(update={"cents": cents})
    answer = await memory.reflect(query, now=now, opinions=False)
    return given.model_copy(
        update={
            "answer": answer.plain,
            "cited": tuple(citation.fact for citation in answer.citations),
            "answer_milliseconds": _ms(time.perf_counter() - done),
            "cents": cents + _cents(answer.usage, options.prices),
        }
    )


def query_of(line: Line) -> str:
    """Return the words of a message as a question; empty if it has none that can be searched for."""
    return "".join(c if c.isprintable() else " " for c in line.message.content).strip()[:MAX_QUERY]


async def _context(memory: Memory, query: str, line: Line, max_tokens: int) -> PromptContext:
    try:
        return await memory.context(query, line.message.speaker, max_tokens=max_tokens, now=line.time)
    except InvalidInput:
        # Several people are called like the speaker: the context is for nobody in particular.
        return await memory.context(query, max_tokens=max_tokens, now=line.time)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def _cents(usage: Usage, prices: Prices | None) -> float:
    """Return the cost of model calls: at the prices given, or else what the provider or the settings state."""
    return 100 * usage.cost if prices is None else prices.cents(usage.input_tokens, usage.output_tokens)


def _given(found: Recalled, context: PromptContext, line: Line, threshold: float) -> Given:
    best = found.hits[0].score if found.hits else 0.0
    noise = [hit for hit in found.hits if hit.score < NOISE_SHARE * best]
    noise_tokens = sum(hit.tokens for hit in noise)
    flags: list[TurnFlag] = []
    answerable = found.answerable if found.hits else 0.0
    if is_question(line) and answerable is not None and answerable < threshold:
        flags.append("unanswerable")
    if 2 * noise_tokens > found.tokens:
        flags.append("noise")
    weak, asked = {hit.id for hit in noise}, set(terms(query_of(line)))
    return Given(
        hits=tuple(_hit(hit, _newer_facts(hit, asked, best), weak=hit.id in weak) for hit in found.hits[:SHOWN]),
        found=len(found.hits),
        tokens=found.tokens,
        noise_tokens=noise_tokens,
        answerable=None if found.answerable is None else round(found.answerable, 3),
        context={name: tuple(fact.id for fact in facts) for name, facts in _sections(context) if facts},
        context_tokens=context.tokens,
        flags=tuple(flags),
    )


def _sections(context: PromptContext) -> list[tuple[str, list[Fact]]]:
    found = [(name, getattr(context, name)) for name in SECTIONS]
    return [(name, [each.fact if isinstance(each, Hit) else each for each in items]) for name, items in found]


def _newer_facts(hit: Hit, asked: AbstractSet[str], best: float) -> tuple[str, ...]:
    """Return the facts that outdated, or may have, a claim which has words of the turn; none of a former fact.

    A former fact is recalled for a question about the past, and marked as former.
    """
    if hit.status == "former" or hit.score < STALE_SHARE * best:
        return ()
    return tuple(claim.replaced_by for claim in hit.fact.claims if not asked.isdisjoint(terms(claim.text)))


def _hit(hit: Hit, newer: tuple[str, ...], *, weak: bool) -> GivenHit:
    flags: list[HitFlag] = ["stale"] if newer else []
    if weak:
        flags.append("noise")
    return GivenHit(
        fact=hit.id,
        score=round(hit.score, 3),
        status=hit.status,
        flags=tuple(flags),
        outdated_by=newer,
        verbatim=hit.verbatim,
    )


def is_question(line: Line) -> bool:
    """Return True if a message asks something, by its question mark."""
    return any(mark in line.message.content for mark in "?？؟")


async def known_facts(memory: Memory, given: Collection[str] = ()) -> list[KnownFact]:
    """Return all facts of the bank; of those that were given and were outdated, or may have been, also by what."""
    facts = await all_facts(memory)
    by_id = {fact.id: fact for fact in facts}
    newer: dict[str, Fact] = {}
    for fact in facts:
        outdated = fact.id in given and (fact.expired_at is not None or fact.invalid_at is not None or fact.claims)
        if outdated and (found := await _newer(memory, fact, by_id)) is not None:
            newer[fact.id] = found
    return [_known_fact(fact, newer.get(fact.id)) for fact in facts]


async def _newer(memory: Memory, fact: Fact, by_id: Mapping[FactId, Fact]) -> Fact | None:
    """Return the fact that outdated another, or the likeliest to have done so."""
    about = await memory.why(fact.id)
    if about.superseded_by:
        return about.superseded_by[0]
    likely = sorted(about.newer, key=lambda each: -each.probability)
    return next((by_id[each.fact] for each in likely if each.fact in by_id), None)


def _known_fact(fact: Fact, newer: Fact | None) -> KnownFact:
    ended: Instant | None = fact.expired_at or (None if newer is None else newer.recorded_at)
    return KnownFact(
        id=fact.id,
        text=fact.text,
        network=fact.network,
        said_at=fact.mentioned_at,
        known_at=fact.recorded_at,
        messages=fact.messages,
        entities=tuple(mention.name for mention in fact.entities),
        instruction=fact.instruction,
        closed=fact.expired_at is not None,
        outdated_at=ended,
        outdated_by=None if newer is None else newer.id,
    )


def _with_hindsight(given: Given, line: Line, known: Mapping[str, KnownFact]) -> Given:
    """Also mark hits that a message before the turn had outdated, which the memory learned later.

    The turn itself is stale if a stale hit does not come below one that outdated it.
    """
    hits = [_reconsidered(hit, line, known.get(hit.fact)) for hit in given.hits]
    above, alone = set[str](), False
    for hit in hits:
        alone = alone or ("stale" in hit.flags and above.isdisjoint(hit.outdated_by))
        above.add(hit.fact)
    flags: tuple[TurnFlag, ...] = ("stale",) if alone else ()
    return given.model_copy(update={"hits": tuple(hits), "flags": (*flags, *given.flags)})


def _reconsidered(hit: GivenHit, line: Line, fact: KnownFact | None) -> GivenHit:
    if fact is None or not fact.closed or fact.outdated_at is None or fact.outdated_at > line.known_before:
        return hit
    if hit.status == "former" or {"stale", "noise"} & set(hit.flags):
        return hit
    newer = () if fact.outdated_by is None else (fact.outdated_by,)
    return hit.model_copy(update={"flags": ("stale", *hit.flags), "outdated_by": newer})


def _turn(line: Line, before: int, given: Sequence[Given], facts: Sequence[Sequence[KnownFact]]) -> Turn:
    compared = _compared(given, facts) if len(given) > 1 else tuple(given)
    different = any(hit.different for each in compared for hit in each.hits)
    return Turn(number=line.number, question=is_question(line), before=before, given=compared, different=different)


def _compared(given: Sequence[Given], facts: Sequence[Sequence[KnownFact]]) -> tuple[Given, ...]:
    """Mark the hits whose messages not all configurations gave: facts of different engines have different ids."""
    by_id = [{fact.id: fact.messages for fact in known} for known in facts]

    def sources(n: int, hit: GivenHit) -> tuple[str, ...]:
        return by_id[n].get(hit.fact) or (hit.fact,)

    shared = set[str].intersection(
        *({id for hit in each.hits for id in sources(n, hit)} for n, each in enumerate(given))
    )

    def marked(n: int, hit: GivenHit) -> GivenHit:
        return hit.model_copy(update={"different": not shared.intersection(sources(n, hit))})

    return tuple(
        each.model_copy(update={"hits": tuple(marked(n, hit) for hit in each.hits)}) for n, each in enumerate(given)
    )


def _with_totals(column: Column, n: int, turns: Sequence[Turn], prices: Prices | None) -> Column:
    given = [turn.given[n] for turn in turns]
    transcript = sum(turn.before for turn in turns)
    values: dict[str, object] = {
        "turns": len(given),
        "questions": sum(turn.question for turn in turns),
        **{name: sum(getattr(each, name) for each in given) for name in ("tokens", "noise_tokens", "context_tokens")},
        "hits": sum(each.found for each in given),
        "cents": sum(each.cents for each in given),
        **{flag: sum(flag in each.flags for each in given) for flag in ("stale", "unanswerable", "noise")},
        "transcript_tokens": transcript,
        "transcript_cents": 0.0 if prices is None else prices.cents(transcript),
        **_percentiles("recall", [each.milliseconds for each in given]),
        **_percentiles("context", [each.context_milliseconds for each in given]),
    }
    return column.model_copy(update={"totals": column.totals.model_copy(update=values)})


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_p50": percentile(values, 0.5), f"{name}_p95": percentile(values, 0.95)}
