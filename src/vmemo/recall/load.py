"""The hits of a recall: load the candidates that fit, weigh them, pack them into the token budget, and explain them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Generic, NamedTuple, Protocol, TypeVar

from vmemo.models import (
    Channel,
    EpisodeId,
    Fact,
    FactId,
    Hit,
    HitStatus,
    Message,
    MessageId,
    NewerFact,
    QueryType,
    Reranking,
)
from vmemo.models.recalled import INSTRUCTION_SHARE, MIN_TRUNCATED, Explanation, Recalled, fit_instructions
from vmemo.models.search import SUSPECT, FactOutline, Scope
from vmemo.ports import BankReader, TokenCounter
from vmemo.recall.fuse import Fused, best_candidates, placements
from vmemo.recall.llm_time_resolver import LLMResolvedTime
from vmemo.recall.rank import Candidates
from vmemo.recall.run import RecallRun
from vmemo.text.instructions import occasion_terms
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_bare_question, is_empty_question, is_small_talk
from vmemo.text.questions import asks_for_profile
from vmemo.text.tokens import terms

AnyFact = TypeVar("AnyFact", Fact, FactOutline)


class ScoredFact(NamedTuple, Generic[AnyFact]):
    """A loaded candidate. It becomes a hit only if it is returned, because weighing makes many more of them."""

    fact: AnyFact
    score: float
    verbatim: bool = False
    """It is a message in its own words."""

    @property
    def id(self) -> FactId:
        """The fact's id."""
        return self.fact.id

    @property
    def tokens(self) -> int:
        """The tokens of the fact's text."""
        return self.fact.tokens

    def times(self, factor: float) -> ScoredFact[AnyFact]:
        """Return it with its score multiplied by a factor."""
        return ScoredFact(self.fact, self.score * factor, self.verbatim)


def by_score(found: Iterable[ScoredFact[AnyFact]]) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score, best first."""
    return sorted(found, key=lambda each: each.score, reverse=True)


def weigh(
    found: Sequence[ScoredFact[AnyFact]], now: datetime, *, half_life: timedelta | None, importance_weight: float
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by weighted score: a score halves with each half-life since the fact was mentioned."""
    return by_score(
        each.times(_recency(each.fact, now, half_life) * _importance(each.fact, importance_weight)) for each in found
    )


def spread_over_episodes(
    found: Sequence[ScoredFact[AnyFact]], share: float, revised: Set[FactId]
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score; one keeps a share of it for each better one of its episode but the first.

    What is said in reply to a statement often completes it, so two facts of an episode count in full. Facts
    that replace each other keep their scores, and with them their order.
    """
    seen: Counter[EpisodeId] = Counter()
    weighed: list[ScoredFact[AnyFact]] = []
    for each in found:
        if not each.fact.episodes:
            weighed.append(each)
            continue
        episode = each.fact.episodes[0]
        weighed.append(each if each.id in revised else each.times(share ** max(0, seen[episode] - 1)))
        seen[episode] += 1
    return by_score(weighed)


def _recency(fact: Fact | FactOutline, now: datetime, half_life: timedelta | None) -> float:
    if half_life is None:
        return 1.0
    age = max(now - fact.mentioned_at, timedelta(0))
    return 0.5 ** (age / half_life)


def _importance(fact: Fact | FactOutline, weight: float) -> float:
    return 1.0 - weight + weight * fact.importance


class HasTokens(Protocol):
    """Something with a token count."""

    @property
    def tokens(self) -> int: ...


Item = TypeVar("Item", bound=HasTokens)


def first_fitting(candidates: Sequence[Item], max_tokens: int | None, top_k: int | None) -> Sequence[Item]:
    """Return the first candidates whose tokens fit together, and the next one, which can be truncated."""
    chosen = candidates[:top_k]
    if max_tokens is None:
        return chosen
    used = accumulate(candidate.tokens for candidate in chosen)
    return chosen[: next((place for place, total in enumerate(used, start=1) if total > max_tokens), len(chosen))]


def truncate_last(hits: Sequence[Hit], max_tokens: int | None, count: TokenCounter) -> list[Hit]:
    """Return hits of which all but the last fit; that one is truncated to what is left, or left out."""
    if max_tokens is None or not hits or sum(hit.tokens for hit in hits) <= max_tokens:
        return list(hits)
    *whole, last = hits
    left = max_tokens - sum(hit.tokens for hit in whole)
    truncated = last.truncate(left, count) if left >= MIN_TRUNCATED or not whole else None
    return whole if truncated is None else [*whole, truncated]


REPLY_WEIGHT = 0.8
"""Factor of the scores of the assistant's long replies, unless the question asks what the assistant said."""
LONG_REPLY = 80
"""Tokens from which a reply of the assistant, or a part of one, is long; shorter ones have their full score."""
MORE = 2
"""Times the budget in which others are looked for that take the place of such messages and replies."""
_ASKED = LazyPattern(r"\b(?:asked|wondered|questions?)\b|\b(?:did|does|do) [\w']+ (?:\w+ )?ask\b", re.IGNORECASE)
"""A question about questions."""


def is_left_out(message: Message, question: str, *, with_questions: bool = False) -> bool:
    """Return True for a message that states nothing; questions are left in if the question is about them.

    `with_questions` also leaves in those that name what they are about.
    """
    if message.state == "raw":
        # It was retained to be recalled verbatim.
        return False
    if is_small_talk(message.content):
        return True
    if is_empty_question(message.content):
        return _ASKED.search(question) is None
    return not with_questions and is_bare_question(message.content) and _ASKED.search(question) is None


def facts_for_lines(found: Sequence[ScoredFact[Fact]], question: str) -> list[ScoredFact[Fact]]:
    """Return candidates with each verbatim message replaced by the best one that says the same: a fact drawn from it.

    A message stays if it has words of the question that its facts lack.
    """
    if not any(each.verbatim for each in found):
        return list(found)
    drawn: dict[MessageId, list[ScoredFact[Fact]]] = {}
    for each in found:
        if not each.verbatim:
            for message in each.fact.messages:
                drawn.setdefault(message, []).append(each)
    asked = set(terms(question))
    placed: dict[FactId, ScoredFact[Fact]] = {}
    for each in found:
        facts = drawn.get(MessageId(each.fact.id), ()) if each.verbatim else ()
        said = {term for other in facts for term in terms(other.fact.text)}
        if facts and asked & set(terms(each.fact.text)) <= said:
            best = facts[0]._replace(score=max(each.score, facts[0].score))
            placed.setdefault(best.fact.id, best)
        else:
            placed.setdefault(each.fact.id, each)
    return list(placed.values())


def without_rests(found: Sequence[ScoredFact[AnyFact]]) -> list[ScoredFact[AnyFact]]:
    """Return candidates without what still holds of a former fact that is among them: the former fact says that too."""
    if not any(each.fact.is_rest for each in found):
        return list(found)
    ids = {each.id for each in found}
    return [each for each in found if not (each.fact.is_rest and each.fact.supersedes in ids)]


def weighs_less(fact: Fact | FactOutline, type: QueryType) -> bool:
    """Return True for a long reply of the assistant, or a part of one, unless the question asks what it said."""
    is_reply = type != "assistant" and fact.network == "experience" and fact.engine == "local"
    return is_reply and fact.tokens >= LONG_REPLY


def weigh_replies(found: Sequence[ScoredFact[AnyFact]], type: QueryType) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score, best first, with those of long replies multiplied by their weight."""
    return by_score(each.times(REPLY_WEIGHT) if weighs_less(each.fact, type) else each for each in found)


def status_of(fact: Fact, scope: Scope, now: datetime, *, outdated: bool) -> HitStatus:
    """Return "former" if a fact no longer holds at the time of the scope; at the time `now` if it has none.

    A fact that a newer one of the scope may have `outdated` is "maybe_outdated".
    """
    return "former" if _is_former(fact, scope, now) else "maybe_outdated" if outdated else "current"


def _is_former(fact: Fact, scope: Scope, now: datetime) -> bool:
    if scope.at_time is not None:
        # The store returns only what was true then.
        return False
    if scope.known_at is not None:
        # The end of a fact that was closed later was not known then.
        return fact.expired_at is None and _ended(fact, scope.known_at)
    return fact.expired_at is not None or _ended(fact, now)


def _ended(fact: Fact, at: datetime) -> bool:
    return fact.invalid_at is not None and fact.invalid_at <= at


REPEATED_EPISODE = 0.9
"""Share of its score that a fact keeps for each better one of its episode but the first, if a question counts."""


def load_hits(run: RecallRun, candidates: Candidates, reader: BankReader) -> Recalled:
    """Load the hits that fit. A recall that weighs many candidates to find them does so by their outlines."""
    with run.timer.stage("load"):
        loader = _Loader(run, candidates, reader)
        if (_gathers(run) or _weighs(run)) and not loader.has_messages:
            weighed = first_fitting(_weighed(run, loader.outlines), run.max_tokens, run.top_k)
            found = loader.of_outlines(weighed)
        else:
            found = first_fitting(_weighed(run, loader.facts), run.max_tokens, run.top_k)
        hits = truncate_last(_hits(run, found, candidates), run.max_tokens, run.context.counter)
        return Recalled.model_construct(
            query=run.text,
            hits=tuple(hits),
            instructions=_instructions(run, reader, candidates.instructions, hits),
            at_time=run.scope.at_time,
            known_at=run.scope.known_at,
            titles=loader.titles,
        )


@dataclass(frozen=True)
class _Candidates(Generic[AnyFact]):
    """The candidates of a recall, best first, and the functions that load some and leave out repetitions."""

    ranked: Sequence[Fused]
    revised: AbstractSet[FactId]
    """Candidates that replace each other."""
    load: Callable[[Sequence[Fused]], list[ScoredFact[AnyFact]]]
    distinct: Callable[[Sequence[ScoredFact[AnyFact]]], list[ScoredFact[AnyFact]]]


class _Loader:
    """Loads candidates, and collects the titles of their episodes."""

    def __init__(self, run: RecallRun, candidates: Candidates, reader: BankReader) -> None:
        self.titles: dict[EpisodeId, str] = {}
        self._run = run
        self._reader = reader
        self._ranked = candidates.ordered
        self._revised = {fact for edge in candidates.revisions for fact in (edge.older, edge.newer)}
        rankings = candidates.rankings
        self._verbatim = {id for each in rankings if each.channel == "verbatim" for id in each.ranking.ids}

    @property
    def has_messages(self) -> bool:
        """True if messages are among the candidates; which of them add nothing depends on the texts of facts."""
        return bool(self._verbatim)

    @property
    def facts(self) -> _Candidates[Fact]:
        """The candidates, to be loaded whole."""
        return _Candidates(
            self._ranked,
            self._revised,
            self._load,
            lambda found: facts_for_lines(without_rests(found), self._run.text),
        )

    @property
    def outlines(self) -> _Candidates[FactOutline]:
        """The candidates, to be loaded in outline."""
        return _Candidates(self._ranked, self._revised, self._outline, without_rests)

    def of_outlines(self, weighed: Sequence[ScoredFact[FactOutline]]) -> list[ScoredFact[Fact]]:
        """Return the facts of outlines with the same scores."""
        loaded = self._reader.load([each.id for each in weighed])
        self.titles.update(loaded.titles)
        known = {fact.id: fact for fact in loaded.facts}
        return [ScoredFact(known[each.id], each.score) for each in weighed if each.id in known]

    def _outline(self, chosen: Sequence[Fused]) -> list[ScoredFact[FactOutline]]:
        scores = {item.id: item.score for item in chosen}
        return [ScoredFact(outline, scores[outline.id]) for outline in self._reader.outline(list(scores))]

    def _load(self, chosen: Sequence[Fused]) -> list[ScoredFact[Fact]]:
        """Return candidates that exist, without messages that state nothing."""
        facts = [item.id for item in chosen if item.id not in self._verbatim]
        messages = [MessageId(item.id) for item in chosen if item.id in self._verbatim]
        loaded = self._reader.load(facts, messages)
        self.titles.update(loaded.titles)
        run = self._run
        known = {fact.id: fact for fact in loaded.facts}
        for message in loaded.messages:
            if not is_left_out(message, run.text, with_questions=run.with_questions):
                known[FactId(message.id)] = Fact.in_own_words(message, run.scope.bank, run.context.counter)
        return [
            ScoredFact(known[item.id], item.score, item.id in self._verbatim) for item in chosen if item.id in known
        ]


def _gathers(run: RecallRun) -> bool:
    return run.analysis.gathers


def _weighs(run: RecallRun) -> bool:
    return run.request.recency_half_life is not None or run.request.importance_weight > 0


def _weighed(run: RecallRun, candidates: _Candidates[AnyFact]) -> list[ScoredFact[AnyFact]]:
    """Load as many candidates as may be among the hits, and return them by their final score."""
    chosen = candidates.ranked
    if not _weighs(run):
        chosen = first_fitting(chosen, run.max_tokens, run.top_k)
        if _gathers(run) and len(chosen) < run.nodes:
            chosen = candidates.ranked[: run.nodes]
    found = _without_noise(run, candidates, chosen)
    if _gathers(run):
        found = spread_over_episodes(found, REPEATED_EPISODE, candidates.revised)
    if _weighs(run):
        half_life, importance = run.request.recency_half_life, run.request.importance_weight
        found = weigh(found, run.now, half_life=half_life, importance_weight=importance)
    return found


def _without_noise(
    run: RecallRun, candidates: _Candidates[AnyFact], chosen: Sequence[Fused]
) -> list[ScoredFact[AnyFact]]:
    """Load candidates, and others that may take the place of those that are left out or weigh less."""
    found = candidates.load(chosen)
    type = run.analysis.type
    # A reranker that the caller supplies decides the order.
    weighed = isinstance(run.context.reranker, str)
    lighter = weighed and any(weighs_less(each.fact, type) for each in found)
    if len(candidates.distinct(found)) == len(chosen) and not lighter:
        return found
    known = {item.id for item in chosen}
    more = first_fitting(candidates.ranked, _more(run.max_tokens), _more(run.top_k))
    further = candidates.load([item for item in more if item.id not in known])
    distinct = candidates.distinct([*found, *further])
    return weigh_replies(distinct, type) if weighed else by_score(distinct)


def _more(limit: int | None) -> int | None:
    return None if limit is None else MORE * limit


def _hits(run: RecallRun, found: Sequence[ScoredFact[Fact]], candidates: Candidates) -> list[Hit]:
    placed = placements(candidates.rankings, {each.id for each in found})
    outdated = {edge.older for edge in candidates.revisions if edge.probability >= SUSPECT}
    scope, now = run.scope, run.now
    return [
        Hit.trusted(
            {
                "fact": each.fact,
                "score": each.score,
                "channels": placed[each.id],
                "verbatim": each.verbatim,
                "status": status_of(each.fact, scope, now, outdated=each.id in outdated),
                "truncated": False,
                "path": (),
                "reranking": None,
                "newer": (),
            }
        )
        for each in found
    ]


def _instructions(run: RecallRun, reader: BankReader, ids: Sequence[FactId], hits: Sequence[Hit]) -> tuple[Fact, ...]:
    """Load the user's standing instructions that fit into their budget."""
    if not ids:
        return ()
    max_tokens = run.context.settings.instruction_tokens
    if run.max_tokens is not None:
        max_tokens = min(max_tokens, run.max_tokens // INSTRUCTION_SHARE)
    found = reader.load(ids).facts
    return choose_instructions(found, {hit.id for hit in hits}, max_tokens, question=run.text)


def choose_instructions(
    found: Sequence[Fact], relevant: AbstractSet[FactId], max_tokens: int, *, question: str = ""
) -> tuple[Fact, ...]:
    """Return the instructions that fit, newest first and each once.

    Of too many, those `relevant` to the question or for an occasion that it names come before those for every answer,
    and instructions for other occasions last.
    """
    newest: dict[tuple[str, ...], Fact] = {}
    for fact in found:
        newest.setdefault(_wording(fact), fact)
    distinct = list(newest.values())
    asked = set(terms(question))
    preferred = sorted(distinct, key=lambda fact: 0 if fact.id in relevant else _distance(fact, asked))
    kept = {fact.id for fact in fit_instructions(preferred, max_tokens)}
    return tuple(fact for fact in distinct if fact.id in kept)


def _distance(fact: Fact, asked: AbstractSet[str]) -> int:
    occasion = occasion_terms(fact.text)
    return 1 if not occasion else 2 if occasion.isdisjoint(asked) else 0


def _wording(fact: Fact) -> tuple[str, ...]:
    return tuple(terms(fact.text))


SHOWN = 20
"""Candidates of each channel that an explanation has."""


def explain(run: RecallRun, found: Candidates, resolved: LLMResolvedTime | None) -> Explanation:
    """Return the explanation of this recall."""
    analysis, context, weights = run.analysis, run.context, run.weights
    candidates: dict[Channel, set[FactId]] = {}
    for channel, ranking, _ in found.rankings:
        candidates.setdefault(channel, set()).update(ranking.ids)
    resolved = resolved or LLMResolvedTime()
    during = resolved.during or analysis.during
    return Explanation(
        type=analysis.type,
        tense=analysis.tense,
        profile=asks_for_profile(run.text),
        during=during,
        resolved_by=None if during is None else "model" if resolved.during else "rules",
        unresolved_time=analysis.unresolved_time.text if analysis.unresolved_time else None,
        problem=resolved.problem,
        parts=analysis.parts,
        entities=tuple(found.entities),
        weights={channel: weights[channel] for channel in weights if channel in run.channels},
        candidates={channel: len(ids) for channel, ids in candidates.items()},
        rankings=best_candidates(found.rankings, SHOWN),
        reranker=context.reranker if isinstance(context.reranker, str) else context.reranker.name,
        reranked=found.scores.count,
    )


def explained_hits(hits: Sequence[Hit], found: Candidates) -> list[Hit]:
    """Return hits with their paths through the graph, their ranks before and after reranking, and newer facts."""
    before = {item.id: rank for rank, item in enumerate(found.fused, start=1)}
    after = {item.id: rank for rank, item in enumerate(found.ordered, start=1)}
    return [
        hit.model_copy(
            update={
                "path": found.graph.path(hit.id),
                "reranking": Reranking(before[hit.id], after[hit.id], found.scores.scores.get(hit.id))
                if found.scores.count and hit.id in before
                else None,
                "newer": tuple(
                    NewerFact(fact=edge.newer, kind=edge.kind, probability=edge.probability)
                    for edge in found.revisions
                    if edge.older == hit.id
                ),
            }
        )
        for hit in hits
    ]
