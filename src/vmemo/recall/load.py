"""The hits of a recall: load the candidates that fit, weigh them, and pack them into the token budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from vmemo.models import EpisodeId, Fact, FactId, Hit, HitStatus, MessageId
from vmemo.models.recalled import INSTRUCTION_SHARE
from vmemo.models.search import SUSPECT, FactOutline, Scope
from vmemo.ports import BankReader
from vmemo.recall.budget import (
    MORE,
    AnyFact,
    ScoredFact,
    by_score,
    facts_for_lines,
    first_fitting,
    is_left_out,
    spread_over_episodes,
    truncate_last,
    weigh,
    weigh_replies,
    weighs_less,
    without_rests,
)
from vmemo.recall.fuse import Fused, placements
from vmemo.recall.instructions import choose_instructions
from vmemo.recall.rank import RankedCandidates
from vmemo.recall.run import RecallRun


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


@dataclass(frozen=True)
class FoundHits:
    """The hits that fit, the titles of their episodes, the user's instructions, and the ranking behind them."""

    hits: Sequence[Hit]
    titles: Mapping[EpisodeId, str]
    instructions: tuple[Fact, ...]
    ranked: RankedCandidates


def load_hits(run: RecallRun, reader: BankReader, ranked: RankedCandidates) -> FoundHits:
    """Load the hits that fit. A recall that weighs many candidates to find them does so by their outlines."""
    with run.timer.stage("load"):
        loader = _Loader(run, reader, ranked)
        query = run.query
        if (_gathers(run) or _weighs(run)) and not loader.has_messages:
            weighed = first_fitting(_weighed(run, loader.outlines), query.max_tokens, query.top_k)
            found = loader.of_outlines(weighed)
        else:
            found = first_fitting(_weighed(run, loader.facts), query.max_tokens, query.top_k)
        hits = truncate_last(_hits(run, found, ranked), query.max_tokens, run.context.counter)
        instructions = _instructions(run, reader, ranked.found.instructions, hits)
    return FoundHits(hits, loader.titles, instructions, ranked)


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

    def __init__(self, run: RecallRun, reader: BankReader, ranked: RankedCandidates) -> None:
        self.titles: dict[EpisodeId, str] = {}
        self._run = run
        self._reader = reader
        self._ranked = ranked.reranked.candidates
        self._revised = {fact for edge in ranked.found.revisions for fact in (edge.older, edge.newer)}
        rankings = ranked.found.rankings
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
            lambda found: facts_for_lines(without_rests(found), self._run.query.text),
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
        query, counter = self._run.query, self._run.context.counter
        known = {fact.id: fact for fact in loaded.facts}
        for message in loaded.messages:
            if not is_left_out(message, query.text, with_questions=query.with_questions):
                known[FactId(message.id)] = Fact.in_own_words(message, query.scope.bank, counter)
        return [
            ScoredFact(known[item.id], item.score, item.id in self._verbatim) for item in chosen if item.id in known
        ]


def _gathers(run: RecallRun) -> bool:
    return run.channels.analysis.gathers


def _weighs(run: RecallRun) -> bool:
    return run.query.recency_half_life is not None or run.query.importance_weight > 0


def _weighed(run: RecallRun, candidates: _Candidates[AnyFact]) -> list[ScoredFact[AnyFact]]:
    """Load as many candidates as may be among the hits, and return them by their final score."""
    query, chosen = run.query, candidates.ranked
    if not _weighs(run):
        chosen = first_fitting(chosen, query.max_tokens, query.top_k)
        if _gathers(run) and len(chosen) < query.nodes:
            chosen = candidates.ranked[: query.nodes]
    found = _without_noise(run, candidates, chosen)
    if _gathers(run):
        found = spread_over_episodes(found, REPEATED_EPISODE, candidates.revised)
    if _weighs(run):
        half_life, importance = query.recency_half_life, query.importance_weight
        found = weigh(found, run.now, half_life=half_life, importance_weight=importance)
    return found


def _without_noise(
    run: RecallRun, candidates: _Candidates[AnyFact], chosen: Sequence[Fused]
) -> list[ScoredFact[AnyFact]]:
    """Load candidates, and others that may take the place of those that are left out or weigh less."""
    found = candidates.load(chosen)
    type, query = run.channels.analysis.type, run.query
    # A reranker that the caller supplies decides the order.
    weighed = isinstance(run.context.reranker, str)
    lighter = weighed and any(weighs_less(each.fact, type) for each in found)
    if len(candidates.distinct(found)) == len(chosen) and not lighter:
        return found
    known = {item.id for item in chosen}
    more = first_fitting(candidates.ranked, _more(query.max_tokens), _more(query.top_k))
    further = candidates.load([item for item in more if item.id not in known])
    distinct = candidates.distinct([*found, *further])
    return weigh_replies(distinct, type) if weighed else by_score(distinct)


def _more(limit: int | None) -> int | None:
    return None if limit is None else MORE * limit


def _hits(run: RecallRun, found: Sequence[ScoredFact[Fact]], ranked: RankedCandidates) -> list[Hit]:
    placed = placements(ranked.found.rankings, {each.id for each in found})
    outdated = {edge.older for edge in ranked.found.revisions if edge.probability >= SUSPECT}
    scope, now = run.query.scope, run.now
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
    if run.query.max_tokens is not None:
        max_tokens = min(max_tokens, run.query.max_tokens // INSTRUCTION_SHARE)
    found = reader.load(ids).facts
    return choose_instructions(found, {hit.id for hit in hits}, max_tokens, question=run.query.text)
