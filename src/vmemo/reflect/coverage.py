"""Facts of every session for orders, summaries, counts and contradictions, in short lines."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import accumulate, chain, pairwise, takewhile, zip_longest
from typing import Protocol

from vmemo.models import Fact, FactId, Hit, Network, QueryType, QuestionTense, Role
from vmemo.ports import TokenCounter
from vmemo.reflect.condense import (
    SEPARATOR,
    advice,
    asks_back,
    condense,
    condense_outline,
    condense_sentences,
    new_statements,
    outline,
    resolution,
    says_nothing,
    without_requests,
)
from vmemo.reflect.evidence import LoadMessages, Source, load_sources
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_bare_question
from vmemo.text.questions.subqueries import opposite_statements, topics
from vmemo.text.tokens import terms

Shorten = Callable[[str, int, TokenCounter, Collection[str]], str | None]
_FENCE = "```"
MAX_CODE = 240
"""Characters of a block of code that stays in a line whose items are counted."""
CODE = "[code]"
"""Stands for a block of code in a shortened line."""
SHORT_LINE = 48
"""Least tokens of a line in an order or a summary. The budget divided by it is the number of lines."""
ITEM_LINE = 96
"""Least tokens of a line in which items are counted."""
STATEMENT_LINE = 64
"""Least tokens of a person's statement in a summary. Fewer whole statements say more than many fragments."""
MIN_REPEATED = 0.6
"""Share of common terms from which one of two statements of a day repeats the other."""
MIN_STATEMENT_TERMS = 2
"""Distinct terms, without stop words, that a statement needs to say anything. "Yes" and "hmm, okay" have fewer."""
MIN_REPLY_TERMS = 8
"""Distinct terms that a reply without an outline needs to say anything."""
MAX_REPEATED = 2
"""Replies that show the same label. "Error Handling" in every reply does not distinguish them."""
MAX_SYMBOLS = 0.1
"""Share of brackets, quotes and operators above which a text is code."""
PEOPLE_SHARE = 0.6
"""Share of a summary's tokens for people's statements; the rest is for the replies."""
_EXAMINED = 200
"""Characters of a text in which symbols are counted."""
_VALUE = LazyPattern(r"[\"'][^\"']+[\"']|\d")
_SYMBOL = LazyPattern(r"[{}()\[\]<>=;\"'_/\\]")
_BY_USER = LazyPattern(
    r"\b(?:i|we)(?:'ve|'d| have| had)? (?:\w+ ){0,2}?(?!want|like|need|know)\w+"
    r"|\bmy (?:\w+ ){0,2}?(?:discussions?|questions?|requests?|messages?|concerns|worries|conversations?|chats?)\b"
)
_BY_ASSISTANT = LazyPattern(
    r"\byou(?:'ve|'d| have| had)? (?:first |ever |already )?(?:suggest|recommend|mention|said|told|propose|bring|"
    r"brought|explain|gave|give|advise|listed\b|discuss)"
)


def asked_speaker(question: str) -> Role | None:
    """Return the speaker whose statements the answer orders: the user in "I brought up", or the assistant."""
    lowered = question.lower()
    if _BY_ASSISTANT.search(lowered):
        return "assistant"
    return "user" if _BY_USER.search(lowered) else None


def interleave(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Return the hits of several rankings, the best of each first, each once."""
    return _first_of_each((hit for hit in chain.from_iterable(zip_longest(*rankings)) if hit), lambda hit: hit.id)


def _first_of_each(hits: Iterable[Hit], key: Callable[[Hit], str]) -> list[Hit]:
    """Return the first hit of each key, in the order of these hits."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(key(hit), hit)
    return list(first.values())


def by_speaker(hits: Sequence[Hit], sources: Mapping[FactId, Source], type: QueryType, question: str) -> Sequence[Hit]:
    """Return the hits of the speaker whose statements the answer orders, or else two statements for each reply.

    People's statements carry a conversation, although replies are longer and more numerous. In a count replies come
    last, because people's actions are counted.
    """
    speaker = asked_speaker(question) if type == "ordering" else None
    if said := [hit for hit in hits if sources[hit.id].role == speaker] if speaker else []:
        return said
    replies = [hit for hit in hits if sources[hit.id].role == "assistant"]
    others = [hit for hit in hits if sources[hit.id].role != "assistant"]
    if type == "count" and asked_speaker(question) != "assistant":
        return [*others, *replies]
    return interleave([others[::2], others[1::2], replies])


def cover_course(
    hits: Sequence[Hit], sources: Mapping[FactId, Source], *, max_tokens: int, count: TokenCounter, question: str
) -> list[Hit]:
    """Return people's statements from every session, each followed by the outline of its reply."""
    people = [hit for hit in hits if sources[hit.id].role != "assistant"]
    replies = _first_of_each(
        (hit for hit in hits if sources[hit.id].role == "assistant"), lambda hit: sources[hit.id].message or hit.id
    )
    if not people or not replies:
        limits = {"max_tokens": max_tokens, "min_line": SHORT_LINE}
        return cover_sessions(hits, sources, **limits, count=count, question=question)
    said = cover_sessions(
        _single_statements(people, sources, count),
        sources,
        max_tokens=max(1, int(max_tokens * PEOPLE_SHARE)),
        min_line=STATEMENT_LINE,
        count=count,
        question=question,
    )
    outlined = _outlined(_replies_to(said, people, replies, sources), sources, count)
    left = max_tokens - sum(hit.tokens for hit in said)
    answered = _shorten(outlined, left, count, terms(question), cut=condense_outline)
    return sorted([*said, *answered], key=lambda hit: sources[hit.id].place)


def _single_statements(people: Sequence[Hit], sources: Mapping[FactId, Source], count: TokenCounter) -> list[Hit]:
    """Return one statement per message, without requests for help; omit messages that say nothing else."""
    single = [
        hit
        for hit in _one_per_message(people, sources)
        if len(set(terms(_body(hit)))) >= MIN_STATEMENT_TERMS and not says_nothing(hit.text)
    ] or people
    return _distinct_statements(single, count)


def _distinct_statements(hits: Sequence[Hit], count: TokenCounter) -> list[Hit]:
    """Return the hits without code and empty requests; omit a hit that repeats another of the same day."""
    kept: list[Hit] = []
    days: dict[date, list[set[str]]] = {}
    for each in hits:
        if (plain := _without_code(each, count)) is None:
            continue
        words, same_day = set(terms(_body(plain))), days.setdefault(plain.fact.mentioned_at.date(), [])
        if not any(_repeats(words, other) for other in same_day):
            same_day.append(words)
            kept.append(_with_text(plain, without_requests(plain.text), count))
    return kept


def _repeats(words: set[str], other: set[str]) -> bool:
    common = len(words & other)
    return common >= MIN_REPEATED * len(words | other) and all(each.isalpha() for each in words - other)


def _replies_to(
    said: Sequence[Hit], people: Sequence[Hit], replies: Sequence[Hit], sources: Mapping[FactId, Source]
) -> list[Hit]:
    """Return the replies that directly follow a statement on its day, in the order of the statements' relevance.

    A statement and its reply may be in different sessions, because a session can begin with either. A reply that shares
    no word with the statement answers another message, which was not recalled.
    """
    ranks = {sources[hit.id].message: rank for rank, hit in reversed(list(enumerate(people)))}
    chosen = {sources[hit.id].message for hit in said}
    following = [
        (ranks[sources[before.id].message], reply)
        for before, reply in pairwise(sorted([*people, *replies], key=lambda hit: sources[hit.id].place))
        if sources[before.id].message in chosen
        and sources[before.id].role != "assistant"
        and sources[reply.id].role == "assistant"
        and before.fact.mentioned_at.date() == reply.fact.mentioned_at.date()
        and _shares_a_word(before, sources[reply.id].content or reply.text)
    ]
    return [reply for _, reply in sorted(following, key=lambda each: each[0])]


def _shares_a_word(statement: Hit, reply: str) -> bool:
    return not set(terms(_body(statement))).isdisjoint(terms(reply))


def _outlined(replies: Sequence[Hit], sources: Mapping[FactId, Source], count: TokenCounter) -> list[Hit]:
    """Return the replies as outlines of their messages, without labels that several earlier replies have.

    The sentence that states the solution of a problem comes first. A reply without an outline is kept if it is more
    than a phrase.
    """
    seen: Counter[str] = Counter()
    outlined: list[Hit] = []
    for hit in replies:
        speaker, _, body = hit.text.partition(": ")
        content = sources[hit.id].content
        labels = [label for label in outline(content) if seen[label] < MAX_REPEATED]
        seen.update(labels)
        solved = resolution(content) or advice(content)
        parts = [*([solved] if solved else ()), *labels]
        if len(parts) > 1:
            outlined.append(_with_text(hit, f"{speaker}: {SEPARATOR.join(parts)}", count))
        elif len(set(terms(body))) >= MIN_REPLY_TERMS and (plain := _without_code(hit, count)) is not None:
            outlined.append(plain)
    return outlined


def cover_sessions(
    hits: Sequence[Hit],
    sources: Mapping[FactId, Source],
    *,
    max_tokens: int,
    min_line: int,
    count: TokenCounter,
    question: str = "",
) -> list[Hit]:
    """Return as many hits as fit, shortened, in the order in which they were said.

    The first half of the lines are the best hits. Then come the best hits of the other sessions, then the next best.
    With short lines, each message gives one line before any gives a second. Messages that only ask come last.
    """
    most, short = max(1, max_tokens // min_line), min_line <= SHORT_LINE
    max_code = 0 if short else MAX_CODE
    asked = terms(question)
    hits = [plain for hit in hits if (plain := _without_code(hit, count, max_code, asked)) is not None]
    hits = [hit for hit in hits if not says_nothing(hit.text)] or hits
    single = _distinct_statements(_one_per_message(hits, sources), count) if short else hits
    single = sorted(single, key=_only_asks)
    best = single[: max(1, most // 2)]
    covered = {_session(hit) for hit in best}
    others = _first_of_each((hit for hit in single[len(best) :] if _session(hit) not in covered), _session)
    chosen = {hit.id: hit for hit in [*best, *others, *single, *hits]}
    used = accumulate(min(hit.tokens, min_line) for hit in chosen.values())
    fitting = max(1, sum(1 for total in used if total <= max_tokens))
    cut = condense if short else condense_sentences
    shortened = _shorten(list(chosen.values())[:fitting], max_tokens, count, asked, cut=cut)
    return sorted(shortened, key=lambda hit: sources[hit.id].place)


def cover_items(
    hits: Sequence[Hit], sources: Mapping[FactId, Source], *, max_tokens: int, count: TokenCounter, question: str
) -> list[Hit]:
    """Return the best hits in the order in which they were said, for questions that count or compare items.

    Each hit shows only the sentences that no earlier hit of the day has. Messages that only ask come last.
    """
    asked = terms(question)
    plain = [each for hit in hits if (each := _without_code(hit, count, MAX_CODE, asked)) is not None]
    plain = sorted([hit for hit in plain if not says_nothing(hit.text)] or plain, key=_only_asks)
    lines: list[Hit] = []
    said: dict[date, list[set[str]]] = {}
    left = max_tokens
    for hit in plain:
        line = _with_text(hit, new_statements(hit.text, said.setdefault(hit.fact.mentioned_at.date(), [])), count)
        left -= min(line.tokens, ITEM_LINE)
        if left < 0 and lines:
            break
        lines.append(line)
    shortened = _shorten(lines, max_tokens, count, asked, cut=condense_sentences)
    return sorted(shortened, key=lambda hit: sources[hit.id].place)


def _only_asks(hit: Hit) -> bool:
    """Return True for a question without a statement, and for a request about code alone."""
    body = _body(hit)
    return asks_back(hit.text) or is_bare_question(body) or body.startswith(CODE)


def _without_code(hit: Hit, count: TokenCounter, max_code: int = 0, asked: Collection[str] = ()) -> Hit | None:
    """Return the hit with a mark in place of each block of code, or None if the hit is only code.

    Blocks of up to `max_code` characters stay, because they may contain counted items. Longer blocks keep the lines
    that have values and `asked` terms.
    """
    speaker, separator, body = hit.text.partition(": ")
    parts = body.split(_FENCE)
    codes = [code if len(code) <= max_code else _excerpt(code, max_code, asked) for code in parts[1::2]]
    text = " ".join(" ".join(chain.from_iterable(zip_longest(parts[::2], codes, fillvalue=""))).split())
    prose = " ".join(" ".join(parts[::2]).split())
    if (not prose and body) or len(_SYMBOL.findall(prose[:_EXAMINED])) > MAX_SYMBOLS * min(len(prose), _EXAMINED):
        return None
    if _FENCE not in body:
        return hit
    return _with_text(hit, f"{speaker}{separator}{text}", count)


def _excerpt(code: str, max_characters: int, asked: Collection[str]) -> str:
    """Return the first lines of code with a value and an asked term in them, and a mark."""
    lines = [line.strip() for line in code.splitlines() if _VALUE.search(line)] if max_characters else []
    about = [line for line in lines if not set(asked).isdisjoint(terms(line.replace("_", " ")))]
    fitting = takewhile(lambda each: each[1] <= max_characters, zip(about, accumulate(map(len, about)), strict=True))
    return " ".join([*(line for line, _ in fitting), CODE])


def _body(hit: Hit) -> str:
    return hit.text.partition(": ")[2] or hit.text


def _with_text(hit: Hit, text: str, count: TokenCounter) -> Hit:
    if text == hit.text:
        return hit
    fact = hit.fact.model_copy(update={"text": text, "tokens": count(text)})
    return hit.model_copy(update={"fact": fact, "truncated": True})


def _one_per_message(hits: Sequence[Hit], sources: Mapping[FactId, Source]) -> list[Hit]:
    return _first_of_each(hits, lambda hit: sources[hit.id].message or hit.id)


def _session(hit: Hit) -> str:
    return hit.fact.episodes[0] if hit.fact.episodes else hit.fact.mentioned_at.date().isoformat()


def _shorten(
    hits: Sequence[Hit],
    max_tokens: int,
    count: TokenCounter,
    asked: Collection[str],
    *,
    cut: Shorten = condense,
) -> list[Hit]:
    """Cut the longest hits so that all fit. Short hits leave their share to others; the best third get two shares."""
    shares = [2 if place * 3 < len(hits) else 1 for place in range(len(hits))]
    lengths = [hit.tokens for hit in hits]
    limit = bisect_right(
        range(max(lengths, default=0) + 1),
        max_tokens,
        key=lambda limit: sum(min(length, share * limit) for length, share in zip(lengths, shares, strict=True)),
    )

    def _cut(hit: Hit, tokens: int) -> Hit | None:
        text = cut(hit.text, tokens, count, asked)
        return None if text is None else _with_text(hit, text, count)

    shortened = (
        hit if hit.tokens <= share * (limit - 1) else _cut(hit, share * (limit - 1))
        for hit, share in zip(hits, shares, strict=True)
    )
    return [hit for hit in shortened if hit is not None]


FACTS: tuple[Network, ...] = ("world", "experience")
"""Networks of evidence. Observations summarize it, and opinions follow from it."""
SCORE_SHARE: Mapping[QueryType, float] = {"count": 0.3, "contradiction": 0.4}
"""Least share of a query's best score, by the types of questions that are about single items."""
GATHERED: frozenset[QueryType] = frozenset(("ordering", "summary", "change", *SCORE_SHARE))
"""The types of questions whose facts are gathered by session."""
WIDE: Mapping[Network | None, int] = {None: 12, "world": 16, "experience": 36}
"""Multiple of the token budget to recall, because lines are shortened afterwards. Replies are the longest texts, and
one part of a reply is enough to find it."""


@dataclass(frozen=True)
class RecallOutcome:
    """The hits of one recall and the type of its question."""

    hits: Sequence[Hit]
    type: QueryType
    parts: tuple[str, ...] = ()
    """The sub-queries of the question."""
    links: tuple[str, ...] = ()
    """Queries for traits of persons on which the answer may depend."""
    instructions: tuple[Fact, ...] = ()
    """The user's standing instructions, newest first."""
    tense: QuestionTense = "present"
    """The tense of the question. Its sub-queries share it, because topics and events have none."""

    @property
    def shared_tense(self) -> QuestionTense | None:
        """The tense of sub-queries, or None for their own."""
        return None if self.tense == "present" else self.tense


class Recall(Protocol):
    """A recall with a token limit; a wide one explores more candidates, and messages that only ask.

    `tense` is that of the question, if the text is a part of it. With a `network`, only its facts are found, as far
    as the filters of the question allow it.
    """

    async def __call__(
        self,
        text: str,
        max_tokens: int,
        *,
        wide: bool = False,
        tense: QuestionTense | None = None,
        network: Network | None = None,
    ) -> RecallOutcome: ...


@dataclass(frozen=True, kw_only=True)
class Recaller:
    """Access to a bank's memory: `messages` returns messages by id."""

    recall: Recall
    messages: LoadMessages
    is_empty: Callable[[], Awaitable[bool]]


async def gather_by_session(
    question: str,
    recalled: RecallOutcome,
    recaller: Recaller,
    *,
    max_tokens: int,
    count: TokenCounter,
    score_share: float | None = None,
) -> tuple[list[Hit], Mapping[FactId, Source]]:
    """Return short lines from every session about the question's topics, in the order in which they were said.

    A fact needs `score_share` of the best score of its query.
    """
    rankings = await _rankings(question, recalled, recaller, max_tokens)
    share = SCORE_SHARE.get(recalled.type, 0.0) if score_share is None else score_share
    close = [[hit for hit in hits if hit.score >= share * hits[0].score] for hits in rankings]
    hits = [hit for hit in interleave(close) if hit.fact.network in FACTS]
    # Standing instructions have a section of their own.
    hits = [hit for hit in hits if not hit.fact.instruction] or hits
    sources = await load_sources(hits, recaller.messages)
    if _is_course(question, recalled.type):
        return cover_course(hits, sources, max_tokens=max_tokens, count=count, question=question), sources
    said = by_speaker(hits, sources, recalled.type, question)
    if recalled.type in SCORE_SHARE:
        return cover_items(said, sources, max_tokens=max_tokens, count=count, question=question), sources
    limits = {"max_tokens": max_tokens, "min_line": SHORT_LINE}
    return cover_sessions(said, sources, **limits, count=count, question=question), sources


def _is_course(question: str, type: QueryType) -> bool:
    """Return True if the answer follows a conversation: statements and their replies."""
    return type == "summary" or (type == "change" and asked_speaker(question) != "assistant")


async def _rankings(question: str, recalled: RecallOutcome, recaller: Recaller, max_tokens: int) -> list[Sequence[Hit]]:
    """Return the hits of each query in each network that is searched separately."""
    networks = _networks(question, recalled.type)
    found = [
        (
            await recaller.recall(
                query, max_tokens * WIDE[network], wide=True, tense=recalled.shared_tense, network=network
            )
        ).hits
        for query in _queries(question, recalled)
        for network in networks
    ]
    if any(found) or networks == (None,):
        return found
    return [(await recaller.recall(question, max_tokens * WIDE[None], wide=True, tense=recalled.shared_tense)).hits]


def _queries(question: str, recalled: RecallOutcome) -> list[str]:
    whole = () if recalled.type in ("ordering", "summary") and recalled.parts else (question,)
    return [
        *whole,
        *recalled.parts,
        *(opposite_statements(question) if recalled.type == "contradiction" else ()),
        *(topics(question) if recalled.type == "count" and not recalled.parts else ()),
    ]


def _networks(question: str, type: QueryType) -> tuple[Network | None, ...]:
    """Return the networks to search separately, so that long replies do not displace people's statements.

    A long conversation has many subjects, and a single ranking of statements and replies finds few of them.
    """
    if _is_course(question, type):
        return FACTS
    if type == "ordering":
        speaker = asked_speaker(question)
        return ("world",) if speaker == "user" else ("experience",) if speaker == "assistant" else FACTS
    return (None,)
