"""The hits of a recall: load the candidates that fit, weigh them, pack them into the token budget, and explain them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.models import Fact, Hit, HitStatus, Message, Network, NewerFact, Reranking
from vmemo.models.recalled import INSTRUCTION_SHARE, MIN_TRUNCATED, Explanation, Recalled, fit_instructions
from vmemo.models.records import FEEDBACK, Channel, EpisodeId, FactId, MessageId, QueryType, ended_behind
from vmemo.models.search import RevisionEdge, Scope
from vmemo.ports import BankReader, TokenCounter
from vmemo.recall.answerable import SIGNALS, AnswerEstimate, AnswerEvidence, answer_evidence, judge
from vmemo.recall.feedback import feedback_factor
from vmemo.recall.fuse import best_candidates, fitting, placements
from vmemo.recall.llm_time_resolver import LLMResolvedTime
from vmemo.recall.rank import Candidates
from vmemo.recall.run import RecallRun
from vmemo.text.instructions import occasion_terms
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions import asks_for_profile
from vmemo.text.small_talk import is_small_talk
from vmemo.text.split import sentence_spans
from vmemo.text.tokens import terms


class ScoredFact(NamedTuple):
    """A loaded candidate. It becomes a hit only if it is returned, because weighing makes many more of them."""

    fact: Fact
    score: float
    number: int

    def times(self, factor: float) -> ScoredFact:
        return ScoredFact(self.fact, self.score * factor, self.number)


def by_score(found: Iterable[ScoredFact]) -> list[ScoredFact]:
    """Return candidates by score, best first."""
    return sorted(found, key=itemgetter(1), reverse=True)


def weigh(found: Sequence[ScoredFact], run: RecallRun) -> list[ScoredFact]:
    """Return candidates by weighted score: a score halves with each half-life since the fact was mentioned."""
    half_life, weight, now = run.request.recency_half_life, run.request.importance_weight, run.now

    def factor(fact: Fact) -> float:
        age = max(now - fact.mentioned_at, timedelta(0))
        return (1.0 if half_life is None else 0.5 ** (age / half_life)) * (1.0 - weight + weight * fact.importance)

    return by_score(each.times(factor(each.fact)) for each in found)


def spread_over_episodes(found: Sequence[ScoredFact], share: float, revised: AbstractSet[int]) -> list[ScoredFact]:
    """Return candidates by score; one keeps a share of it for each better one of its episode but the first.

    What is said in reply to a statement often completes it, so two facts of an episode count in full. Facts
    that replace each other keep their scores, and with them their order.
    """
    seen: Counter[EpisodeId] = Counter()
    weighed: list[ScoredFact] = []
    for each in found:
        better = 0
        for episode in each.fact.episodes[:1]:
            better = max(0, seen[episode] - 1)
            seen[episode] += 1
        weighed.append(each if each.number in revised else each.times(share**better))
    return by_score(weighed)


def first_fitting(tokens: Sequence[int] | NDArray[np.int64], max_tokens: int | None, top_k: int | None) -> int:
    """Return the number of first candidates whose tokens fit together, and the next one, which can be truncated."""
    chosen = tokens[:top_k]
    return min(len(chosen), fitting(chosen, max_tokens, None) + 1)


def truncate_last(hits: Sequence[Hit], max_tokens: int | None, count: TokenCounter) -> list[Hit]:
    """Return hits of which all but the last fit; that one is truncated to what is left, or left out."""
    tokens = [hit.fact.tokens for hit in hits]
    if max_tokens is None or not hits or sum(tokens) <= max_tokens:
        return list(hits)
    *whole, last = hits
    left = max_tokens - sum(tokens[:-1])
    truncated = last.truncate(left, count) if left >= MIN_TRUNCATED or not whole else None
    return whole if truncated is None else [*whole, truncated]


REPLY_WEIGHT, LONG_REPLY_WEIGHT = 0.9, 0.8
"""Factors of the scores of the assistant's replies, unless the question asks what the assistant said: they repeat
what was said to it."""
LONG_REPLY = 80
"""Tokens from which a reply of the assistant, or a part of one, is long."""
MORE = 2
"""Times the budget in which others are looked for that take the place of such messages and replies."""
STEP = 32
"""Candidates that are loaded at a time to take such places."""
_ASKED = LazyPattern(r"\b(?:asked|wondered|questions?)\b|\b(?:did|does|do) [\w']+ (?:\w+ )?ask\b", re.IGNORECASE)
"""A question about questions."""


def is_left_out(message: Message, question: str, *, with_questions: bool = False) -> bool:
    """Return True for small talk, and for questions unless the question is about them or `with_questions` is set."""
    if message.state == "raw":
        # It was retained to be recalled verbatim.
        return False
    if is_small_talk(message.content):
        return True
    return not with_questions and _only_asks(message.content) and _ASKED.search(question) is None


def _only_asks(text: str) -> bool:
    """Return True if every sentence of a message is a plain question or small talk; a comma may join a statement."""
    sentences = [text[start:end].strip() for start, end in sentence_spans(text)]
    return all((each.endswith(("?", "？", "؟")) and "," not in each) or is_small_talk(each) for each in sentences)


def facts_for_lines(found: Sequence[ScoredFact], question: str) -> list[ScoredFact]:
    """Return candidates with each verbatim message replaced by the best one that says the same: a fact drawn from it.

    A message stays if it has words of the question that its facts lack.
    """
    if not [each for each in found if each.number < 0]:
        return list(found)
    drawn: dict[MessageId, list[ScoredFact]] = {}
    for each in found:
        if each.number > 0:
            for message in each.fact.messages:
                drawn.setdefault(message, []).append(each)
    asked = set(terms(question))
    placed: dict[FactId, ScoredFact] = {}
    for each in found:
        facts = drawn.get(MessageId(each.fact.id), ()) if each.number < 0 else ()
        said = {term for other in facts for term in terms(other.fact.text)}
        if facts and asked & set(terms(each.fact.text)) <= said:
            best = facts[0]._replace(score=max(each.score, facts[0].score))
            placed.setdefault(best.fact.id, best)
        else:
            placed.setdefault(each.fact.id, each)
    return list(placed.values())


# Chosen on conversations of two authors whom the encoder was not trained on.
LEAST_RELATED = 0.08
"""Probability that the best facts are about the question, below which none suffice."""
LEADING, DOUBTFUL, USUAL = 2.0, 0.4, 0.14
"""The share of the best score that a hit needs rises with the doubt that the facts are about the question, and with the
lead of the best aligned one, because others add less to one that stands out, unless the question has several parts.
Where neither is known, the rise is the usual one."""
GREATEST_SHARE = 0.68
"""That share at most: what is nearer to the best belongs to the answer."""


def sufficient(hits: Sequence[Hit], run: RecallRun, judgement: AnswerEstimate | None) -> list[Hit]:
    """Return the fewest hits that suffice: those near the best one that add something to those above them.

    A fact that replaced another, or that one replaced, is no repetition of it.
    """
    if judgement is not None and judgement.related < LEAST_RELATED:
        return []
    share = run.share + USUAL
    if judgement is not None:
        lead = 0.0 if run.analysis.parts or run.analysis.gathers else judgement.lead
        rise = LEADING * lead + DOUBTFUL * max(0.0, 0.5 - judgement.related)
        share = min(GREATEST_SHARE, run.share + rise)
    kept: list[Hit] = []
    said: list[frozenset[str]] = []
    for hit in hits:
        if hit.score < share * hits[0].score:
            continue
        words = frozenset(terms(hit.text))
        if not words or is_small_talk(hit.text.partition(": ")[2] or hit.text):
            continue
        if any(words <= others for others in said) and hit.status == "current" and hit.fact.supersedes is None:
            continue
        kept.append(hit)
        said.append(words)
    return kept


def reply_weight(fact: Fact, type: QueryType) -> float:
    """Return the weight of a reply or deed of the assistant, unless the question asks what it said or did."""
    if type == "assistant" or fact.network != "experience":
        return 1.0
    return LONG_REPLY_WEIGHT if fact.tokens >= LONG_REPLY else REPLY_WEIGHT


def weigh_replies(found: Sequence[ScoredFact], type: QueryType) -> list[ScoredFact]:
    """Return candidates by score, best first, with those of replies multiplied by their weight."""
    return by_score(
        [each.times(reply_weight(each.fact, type)) if each.fact.network == "experience" else each for each in found]
    )


def weigh_feedback(found: Sequence[ScoredFact], question: str, edges: Sequence[RevisionEdge]) -> list[ScoredFact]:
    """Return candidates by score, those judged for such a question a little higher or lower.

    A fact never passes one that replaced or outdated it.
    """
    words = set(terms(question))
    before = {each.number: each.score for each in found}
    moved = {each.number: each.times(feedback_factor(each.fact, question, words)) for each in found}
    for newer in before:
        for edge in edges:
            if edge.newer == newer and edge.older in moved and before[newer] >= before[edge.older]:
                older = moved[edge.older]
                moved[edge.older] = older._replace(score=min(older.score, moved[newer].score))
    return by_score(moved.values())


def status_of(fact: Fact, scope: Scope, now: datetime, *, outdated: bool) -> HitStatus:
    """Return "former" if a fact no longer holds at the time of the scope; at the time `now` if it has none.

    A fact that a newer one of the scope may have `outdated`, all of it or a claim, is "maybe_outdated".
    """
    ended = fact.invalid_at is not None and fact.invalid_at <= (scope.known_at or now)
    if scope.at_time is not None:
        # The store returns only what was true then.
        former = False
    elif scope.known_at is not None:
        # The end of a fact that was closed later was not known then.
        former = ended and fact.expired_at is None
    else:
        former = ended or fact.expired_at is not None
    return "former" if former else "maybe_outdated" if outdated else "current"


Load = Callable[[int, int], list[ScoredFact]]
"""Loads the candidates from one place to another."""
REPEATED_EPISODE = 0.9
"""Share of its score that a fact keeps for each better one of its episode but the first, if a question counts."""


class FoundInBank(NamedTuple):
    """The result of a search in one bank, and what makes it comparable with that of another bank."""

    recalled: Recalled
    evidence: AnswerEvidence
    """The candidates that it was judged by."""
    relevance: Mapping[FactId, float]
    """The reranker's scores of hits, which do not depend on the other facts of the bank."""


def load_hits(run: RecallRun, candidates: Candidates, reader: BankReader) -> FoundInBank:
    with run.timer.stage("load"):
        titles: dict[EpisodeId, str] = {}
        weighed = _weighed(run, candidates, partial(_load, run, candidates, reader, titles))
    with run.timer.stage("judge"):
        texts = {each.number: each.fact.text for each in weighed}
        evidence = answer_evidence(run.question, candidates, texts, reader, run.context.embedder)
        judgement = judge(run.question, run.text, evidence, run.context.embedder)
    with run.timer.stage("load"):
        count = first_fitting([each.fact.tokens for each in weighed], run.max_tokens, run.top_k)
        found = weighed[:count]
        hits = truncate_last(_hits(run, found, candidates, reader), run.max_tokens, run.context.counter)
        if run.request.precise:
            hits = sufficient(hits, run, judgement)
        recalled = Recalled.model_construct(
            query=run.text,
            hits=tuple(hits),
            instructions=_instructions(run, reader, candidates.instructions, hits),
            at_time=run.scope.at_time,
            known_at=run.scope.known_at,
            titles={id: titles[id] for hit in hits for id in hit.fact.episodes},
            answerable=judgement.answerable if judgement else None,
            explanation=explain(run, candidates, reader, judgement) if run.request.explain else None,
        )
        scores = dict(zip(candidates.scores.numbers, candidates.scores.scores.tolist(), strict=True))
        relevance = {each.fact.id: scores[each.number] for each in found if each.number in scores}
        return FoundInBank(recalled, evidence, relevance)


def _load(
    run: RecallRun, candidates: Candidates, reader: BankReader, titles: dict[EpisodeId, str], first: int, last: int
) -> list[ScoredFact]:
    """Return the candidates from one place to another that exist, without messages that state nothing.

    The titles of their episodes are added to `titles`.
    """
    chosen = candidates.ordered.take(slice(first, last))
    if not len(chosen):
        return []
    loaded = reader.load(chosen.numbers.tolist())
    titles |= loaded.titles
    known = dict(loaded.facts)
    for number, message in loaded.messages.items():
        if not is_left_out(message, run.text, with_questions=run.with_questions):
            known[number] = Fact.in_own_words(message, run.scope.bank, run.context.counter)
    scored = zip(chosen.numbers.tolist(), chosen.scores.tolist(), strict=True)
    return [ScoredFact(known[number], score, number) for number, score in scored if number in known]


def _weighed(run: RecallRun, candidates: Candidates, load: Load) -> list[ScoredFact]:
    """Load as many candidates as may be among the hits, and return them by their final score."""
    ranked, gathers = candidates.ordered, run.analysis.gathers
    weighs = run.request.recency_half_life is not None or run.request.importance_weight > 0
    count = len(ranked) if weighs else first_fitting(ranked.tokens, run.max_tokens, run.top_k)
    found = _without_noise(run, ranked.tokens, load, min(max(count, run.nodes) if gathers else count, len(ranked)))
    if [each for each in found if FEEDBACK in each.fact.metadata]:
        found = weigh_feedback(found, run.text, candidates.revisions)
    if gathers:
        revised = {fact for edge in candidates.revisions for fact in (edge.older, edge.newer)}
        found = spread_over_episodes(found, REPEATED_EPISODE, revised)
    return weigh(found, run) if weighs else found


def _without_noise(run: RecallRun, tokens: NDArray[np.int64], load: Load, count: int) -> list[ScoredFact]:
    """Load the first candidates, and others that may take the place of those that are left out or weigh less."""
    found, type = load(0, count), run.analysis.type
    # A reranker that the caller supplies decides the order.
    weighed = isinstance(run.context.reranker, str)
    lighter: tuple[Network, ...] = ("experience",) if weighed and type != "assistant" else ()

    def may_fall(facts: Sequence[ScoredFact]) -> list[bool]:
        return [each.fact.network in lighter or FEEDBACK in each.fact.metadata for each in facts]

    falls = True in may_fall(found)
    distinct = facts_for_lines(found, run.text)
    if len(distinct) == count and not falls:
        return found
    max_tokens, top_k = (None if limit is None else MORE * limit for limit in (run.max_tokens, run.top_k))
    most = max(count, first_fitting(tokens, max_tokens, top_k))
    while count < most:
        if not run.analysis.gathers:
            # None of the others can take a place among the hits.
            whole = [each.fact.tokens for each, light in zip(distinct, may_fall(distinct), strict=True) if not light]
            if first_fitting(whole, run.max_tokens, run.top_k) < len(whole):
                break
        found += load(count, min(most, count + STEP))
        distinct = facts_for_lines(found, run.text)
        count += STEP
    return weigh_replies(distinct, type) if weighed else by_score(distinct)


def _hits(run: RecallRun, found: Sequence[ScoredFact], candidates: Candidates, reader: BankReader) -> list[Hit]:
    shown = [each.number for each in found]
    placed = placements(candidates.rankings, shown)
    explained = _explained(shown, candidates, reader) if run.request.explain else {}
    scope, now = run.scope, run.now
    facts = _with_visible_claims(found, candidates, reader, scope.at_time or scope.known_at or now)
    outdated = {n for n, fact in facts.items() for claim in fact.claims if claim.invalid_at is None}
    outdated |= _observed_before(facts, reader, scope.at_time or scope.known_at or now)
    return [
        Hit.trusted(
            {
                "fact": facts[each.number],
                "score": each.score,
                "channels": placed[each.number],
                "verbatim": each.number < 0,
                "status": status_of(each.fact, scope, now, outdated=each.number in outdated)
                if each.number in outdated or each.fact.invalid_at is not None or each.fact.expired_at is not None
                else "current",
                "truncated": False,
                "outcomes": (),
                "path": (),
                "reranking": None,
                "newer": (),
                **explained.get(each.number, {}),
            }
        )
        for each in found
    ]


def _observed_before(facts: Mapping[int, Fact], reader: BankReader, at: datetime) -> set[int]:
    """Return the observations that rest on a fact that has ended since, wholly or in part."""
    observed = {number: fact for number, fact in facts.items() if fact.network == "observation"}
    if not observed:
        return set()
    numbers = reader.numbers([id for fact in observed.values() for id in fact.basis])
    basis = {fact.id: fact for fact in reader.load(list(numbers.values())).facts.values()}
    return {number for number, fact in observed.items() if ended_behind(fact, basis, at)}


def _with_visible_claims(
    found: Sequence[ScoredFact], candidates: Candidates, reader: BankReader, at: datetime
) -> dict[int, Fact]:
    """Return facts with those of their claims that facts of the scope had ended by then, or may have ended."""
    facts = {each.number: each.fact for each in found}
    claiming = {number: fact for number, fact in facts.items() if fact.claims}
    if not claiming:
        return facts
    visible = {(edge.older, edge.newer) for edge in candidates.revisions}
    numbers = reader.numbers([claim.replaced_by for fact in claiming.values() for claim in fact.claims])
    for number, fact in claiming.items():
        claims = tuple(
            claim
            for claim in fact.claims
            if (number, numbers.get(claim.replaced_by)) in visible and not (claim.invalid_at and claim.invalid_at > at)
        )
        if len(claims) < len(fact.claims):
            facts[number] = Fact.trusted({**fact.__dict__, "claims": claims})
    return facts


def _instructions(run: RecallRun, reader: BankReader, found: Sequence[int], hits: Sequence[Hit]) -> tuple[Fact, ...]:
    """Load the user's standing instructions that fit into their budget."""
    if not found:
        return ()
    max_tokens = run.context.settings.instruction_tokens
    if run.max_tokens is not None:
        max_tokens = min(max_tokens, run.max_tokens // INSTRUCTION_SHARE)
    loaded = reader.load(found).facts
    facts = [loaded[number] for number in found if number in loaded]
    return choose_instructions(facts, {hit.id for hit in hits}, max_tokens, question=run.text)


def choose_instructions(
    found: Sequence[Fact], relevant: AbstractSet[FactId], max_tokens: int, *, question: str = ""
) -> tuple[Fact, ...]:
    """Return the instructions that fit, newest first and each once.

    Of too many, those `relevant` to the question or for an occasion that it names come before those for every answer,
    and instructions for other occasions last.
    """
    newest: dict[tuple[str, ...], Fact] = {}
    for fact in found:
        newest.setdefault(tuple(terms(fact.text)), fact)
    distinct = list(newest.values())
    asked = set(terms(question))
    preferred = sorted(distinct, key=lambda fact: 0 if fact.id in relevant else _distance(fact, asked))
    kept = {fact.id for fact in fit_instructions(preferred, max_tokens)}
    return tuple(fact for fact in distinct if fact.id in kept)


def _distance(fact: Fact, asked: AbstractSet[str]) -> int:
    occasion = occasion_terms(fact.text)
    return 1 if not occasion else 2 if occasion.isdisjoint(asked) else 0


SHOWN = 20
"""Candidates of each channel that an explanation has."""


def explain(run: RecallRun, found: Candidates, reader: BankReader, judgement: AnswerEstimate | None) -> Explanation:
    analysis, context, weights = run.analysis, run.context, run.weights
    candidates: dict[Channel, set[int]] = {}
    for channel, ranking, _ in found.rankings:
        candidates.setdefault(channel, set()).update(ranking.numbers.tolist())
    resolved = run.resolved or LLMResolvedTime()
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
        entities=tuple(found.entities.values()),
        weights={channel: weights[channel] for channel in weights if channel in run.channels},
        candidates={channel: len(numbers) for channel, numbers in candidates.items()},
        rankings=best_candidates(found.rankings, SHOWN, reader.ids),
        reranker=context.reranker if isinstance(context.reranker, str) else context.reranker.name,
        reranked=found.scores.count,
        signals=dict(zip(SIGNALS, judgement.signals, strict=False)) if judgement else {},
    )


def _explained(shown: Sequence[int], found: Candidates, reader: BankReader) -> dict[int, dict[str, object]]:
    """Return the paths of hits through the graph, their ranks before and after reranking, and newer facts."""
    before = {number: rank for rank, number in enumerate(found.fused.numbers.tolist(), start=1)}
    after = {number: rank for rank, number in enumerate(found.ordered.numbers.tolist(), start=1)}
    paths = found.graph.paths(shown, found.entities, reader)
    newer = [edge for edge in found.revisions if edge.older in paths]
    ids = reader.ids([edge.newer for edge in newer])
    return {
        number: {
            "path": paths[number],
            "reranking": Reranking(before[number], after[number], found.scores.of(number))
            if found.scores.count and number in before
            else None,
            "newer": tuple(
                NewerFact(fact=FactId(ids[edge.newer]), kind=edge.kind, probability=edge.probability)
                for edge in newer
                if edge.older == number
            ),
        }
        for number in shown
    }
