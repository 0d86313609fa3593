"""The hits of a recall: load the candidates that fit, weigh them, and pack them into the token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vmemo.models import EpisodeId, Fact, FactId, Hit, MessageId
from vmemo.models.recall_prompt import INSTRUCTION_SHARE
from vmemo.ports import BankReader
from vmemo.recall.budget import ScoredFact, first_fitting, spread_over_episodes, truncate_last, weigh
from vmemo.recall.fuse import Fused, placements
from vmemo.recall.instructions import choose_instructions
from vmemo.recall.noise import MORE, facts_for_lines, is_left_out, weigh_replies, weighs_less, without_rests
from vmemo.recall.rank import RankedCandidates
from vmemo.recall.run import RecallRun
from vmemo.recall.status import status_of


@dataclass(frozen=True)
class FoundHits:
    """The hits that fit, the titles of their episodes, the user's instructions, and the ranking behind them."""

    hits: Sequence[Hit]
    titles: Mapping[EpisodeId, str]
    instructions: tuple[Fact, ...]
    ranked: RankedCandidates


def load_hits(run: RecallRun, reader: BankReader, ranked: RankedCandidates) -> FoundHits:
    """Load the hits that fit. Weighing needs all candidates loaded before it is known which fit."""
    with run.timer.stage("load"):
        loader = _Loader(run, reader, ranked)
        query = run.query
        found = first_fitting(_weighed(run, loader), query.max_tokens, query.top_k)
        hits = truncate_last(_hits(run, found, ranked), query.max_tokens, run.context.counter)
        instructions = _instructions(run, reader, ranked.found.instructions, hits)
    return FoundHits(hits, loader.titles, instructions, ranked)


@dataclass
class _Loader:
    """Loads candidates, and collects the titles of their episodes."""

    run: RecallRun
    reader: BankReader
    ranked: RankedCandidates
    titles: dict[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])

    def __post_init__(self) -> None:
        rankings = self.ranked.found.rankings
        self._verbatim = {id for each in rankings if each.channel == "verbatim" for id in each.ranking.ids}

    def load(self, chosen: Sequence[Fused]) -> list[ScoredFact]:
        """Return candidates that exist, without messages that state nothing."""
        facts = [item.id for item in chosen if item.id not in self._verbatim]
        messages = [MessageId(item.id) for item in chosen if item.id in self._verbatim]
        loaded = self.reader.load(facts, messages)
        self.titles.update(loaded.titles)
        query, counter = self.run.query, self.run.context.counter
        known = {fact.id: fact for fact in loaded.facts}
        for message in loaded.messages:
            if not is_left_out(message, query.text, with_questions=query.with_questions):
                known[FactId(message.id)] = Fact.in_own_words(message, query.scope.bank, counter)
        return [
            ScoredFact(known[item.id], item.score, item.id in self._verbatim) for item in chosen if item.id in known
        ]


def _weighed(run: RecallRun, loader: _Loader) -> list[ScoredFact]:
    """Load as many candidates as may be among the hits, and return them by their final score."""
    query, candidates = run.query, loader.ranked.reranked.candidates
    gathers = run.channels.analysis.gathers
    weighted = query.recency_half_life is not None or query.importance_weight > 0
    chosen = candidates
    if not weighted:
        chosen = first_fitting(candidates, query.max_tokens, query.top_k)
        if gathers and len(chosen) < query.nodes:
            chosen = candidates[: query.nodes]
    found = _without_noise(run, loader, chosen)
    if gathers:
        revised = {fact for edge in loader.ranked.found.revisions for fact in (edge.older, edge.newer)}
        found = spread_over_episodes(found, run.context.settings.fusion.repeated_episode, revised)
    if weighted:
        half_life, importance = query.recency_half_life, query.importance_weight
        found = weigh(found, run.now, half_life=half_life, importance_weight=importance)
    return found


def _without_noise(run: RecallRun, loader: _Loader, chosen: Sequence[Fused]) -> list[ScoredFact]:
    """Load candidates, and others that may take the place of those that are left out or weigh less."""
    found = loader.load(chosen)
    type, fusion, query = run.channels.analysis.type, run.context.settings.fusion, run.query
    if not isinstance(run.context.reranker, str):
        # A reranker that the caller supplies decides the order.
        fusion = replace(fusion, reply=1.0)
    unrepeated = facts_for_lines(without_rests(found), query.text)
    if len(unrepeated) == len(chosen) and not any(weighs_less(each.fact, type, fusion) for each in found):
        return found
    known = {item.id for item in chosen}
    more = first_fitting(loader.ranked.reranked.candidates, _more(query.max_tokens), _more(query.top_k))
    further = loader.load([item for item in more if item.id not in known])
    return weigh_replies(facts_for_lines(without_rests([*found, *further]), query.text), type, fusion)


def _more(limit: int | None) -> int | None:
    return None if limit is None else MORE * limit


def _hits(run: RecallRun, found: Sequence[ScoredFact], ranked: RankedCandidates) -> list[Hit]:
    placed = placements(ranked.found.rankings, {each.id for each in found})
    suspect = run.context.settings.revision_model.suspect
    outdated = {edge.older for edge in ranked.found.revisions if edge.probability >= suspect}
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
    return choose_instructions(reader.load(ids).facts, {hit.id for hit in hits}, max_tokens)
