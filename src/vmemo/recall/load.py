"""The hits of a recall: load the candidates that fit, weigh them, and pack them into the token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from vmemo.models import Channel, EpisodeId, Fact, FactId, Hit, HitStatus, MessageId, NewerFact, Reranking
from vmemo.models.recalled import INSTRUCTION_SHARE, Explanation, Recalled, fit_instructions
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
from vmemo.recall.fuse import Fused, best_candidates, placements
from vmemo.recall.llm_time_resolver import LLMResolvedTime
from vmemo.recall.rank import Candidates
from vmemo.recall.run import RecallRun
from vmemo.text.instructions import occasion_terms
from vmemo.text.questions import asks_for_profile
from vmemo.text.tokens import terms


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
        links=analysis.links,
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
