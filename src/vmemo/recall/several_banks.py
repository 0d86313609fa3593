"""One result of a recall in several banks.

A bank's scores are normalised to its own best facts, so that those of a bank which holds nothing to the point look as
good as any. They are made comparable by what does not depend on the other facts of a bank: the reranker's score of a
fact, or without a reranker its cosine with the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from vmemo.models import BankId, Channel, ChannelCandidate, Fact, Hit, Mention
from vmemo.models.recalled import INSTRUCTION_SHARE, Explanation, Recalled
from vmemo.models.search import StageTimer
from vmemo.recall.answerable import ALIGNED, READ, SIGNALS, AnswerEstimate, AnswerEvidence, judge
from vmemo.recall.load import SHOWN, FoundInBank, choose_instructions, first_fitting, sufficient, truncate_last
from vmemo.recall.run import RecallRun

RELEVANCE_WEIGHT = 2.0
"""Weight of the relevance on one scale, from 0 to 1, beside a bank's own score, whose best is about 2.

Chosen on conversations of our own: with 1,150 turns in one bank and 14 in another, the answer is the first hit for .81
of the questions (without it .74; in one bank with everything .80) and among the first three for .93 (.89; .91).
"""


def in_bank(run: RecallRun, bank: BankId, *, of: int) -> RecallRun:
    """Return the search in one bank `of` several."""
    return replace(run, scope=run.scope.replace(bank=bank), timer=StageTimer(), banks=of)


def join_banks(run: RecallRun, runs: Sequence[RecallRun], found: Sequence[FoundInBank]) -> Recalled:
    """Return the results of several banks as one within the budget, judged as a whole."""
    for each in runs:
        run.timer.add(each.timer.stages)
    with run.timer.stage("join"):
        recalled = [each.recalled for each in found]
        hits = _by_relevance(found)
        count = first_fitting([hit.tokens for hit in hits], run.max_tokens, run.top_k)
        hits = truncate_last(hits[:count], run.max_tokens, run.context.counter)
        evidence = _evidence(run, [each.evidence for each in found], hits)
        judgement = judge(run.question, run.text, evidence, run.context.embedder)
        if run.request.precise:
            hits = sufficient(hits, run, judgement)
        return recalled[0].model_copy(
            update={
                "banks": tuple(each.scope.bank for each in runs),
                "hits": tuple(hits),
                "instructions": _instructions(run, [fact for each in recalled for fact in each.instructions], hits),
                "titles": {id: title for each in recalled for id, title in each.titles.items()},
                "answerable": judgement.answerable if judgement else None,
                "explanation": _explanation([e for r in recalled if (e := r.explanation)], judgement),
            }
        )


def _by_relevance(found: Sequence[FoundInBank]) -> list[Hit]:
    """Return the hits of all banks by their scores in their banks and their relevance on one scale, best first.

    One that a newer fact may have replaced stays behind the hit that it follows in its bank.
    """
    known = [_relevance(each) for each in found]
    values = [value for each in known for value in each if value is not None]
    least, span = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
    joined: list[Hit] = []
    for each, relevance in zip(found, known, strict=True):
        hits = each.recalled.hits
        shares = [0.0 if value is None or not span else (value - least) / span for value in relevance]
        scores = [hit.score + RELEVANCE_WEIGHT * share for hit, share in zip(hits, shares, strict=True)]
        for place in range(len(hits) - 1, 0, -1):
            if hits[place].status != "current":
                scores[place - 1] = max(scores[place - 1], scores[place])
        joined += [hit.model_copy(update={"score": score}) for hit, score in zip(hits, scores, strict=True)]
    return sorted(joined, key=lambda hit: hit.score, reverse=True)


def _relevance(found: FoundInBank) -> list[float | None]:
    """Return the reranker's score of each hit, or its cosine if there is no reranker; None if it has neither."""
    hits, scores = found.recalled.hits, {id: score for id, score in found.relevance.items() if not math.isnan(score)}
    if scores:
        return [scores.get(hit.id) for hit in hits]
    return [hit.channels["semantic"].score if "semantic" in hit.channels else None for hit in hits]


def _alignment(run: RecallRun, evidence: AnswerEvidence) -> list[float]:
    tokens = run.question.tokens
    if tokens is None or not len(evidence.aligned):
        return []
    lengths = np.linalg.norm(tokens, axis=1)
    return (evidence.aligned @ (lengths / lengths.sum())).tolist()


def _evidence(run: RecallRun, evidence: Sequence[AnswerEvidence], hits: Sequence[Hit]) -> AnswerEvidence:
    """Return the best of the evidence of all banks."""
    rows = [row for each in evidence for row in each.aligned]
    order = np.argsort([-fit for each in evidence for fit in _alignment(run, each)], kind="stable")[:ALIGNED]
    return AnswerEvidence(
        any_found=any(each.any_found for each in evidence),
        aligned=np.array([rows[place] for place in order.tolist()]),
        texts=[hit.text for hit in hits if not hit.verbatim][:READ],
        cosines=sorted((cosine for each in evidence for cosine in each.cosines), reverse=True)[:3],
    )


def _instructions(run: RecallRun, instructions: Iterable[Fact], hits: Sequence[Hit]) -> tuple[Fact, ...]:
    """Return the standing instructions of all banks, equal ones once, within the budget of one recall."""
    most = run.context.settings.instruction_tokens
    most = most if run.max_tokens is None else min(most, run.max_tokens // INSTRUCTION_SHARE)
    newest = sorted(instructions, key=lambda fact: fact.mentioned_at, reverse=True)
    return choose_instructions(newest, {hit.id for hit in hits}, most, question=run.text)


def _explanation(found: Sequence[Explanation], judgement: AnswerEstimate | None) -> Explanation | None:
    """Return what the banks have in common, and the candidates of all."""
    if not found:
        return None
    first, entities = found[0], dict[str, Mention]()
    rankings: dict[Channel, list[ChannelCandidate]] = {}
    for each in found:
        entities |= {mention.id: mention for mention in each.entities}
        for channel, candidates in each.rankings.items():
            rankings.setdefault(channel, []).extend(candidates)
    return first.model_copy(
        update={
            "entities": tuple(entities.values()),
            "candidates": {name: sum(each.candidates.get(name, 0) for each in found) for name in rankings},
            "rankings": {
                name: tuple(sorted(candidates, key=lambda each: (each.rank, -each.score))[:SHOWN])
                for name, candidates in rankings.items()
            },
            "reranked": sum(each.reranked for each in found),
            "signals": dict(zip(SIGNALS, judgement.signals, strict=False)) if judgement else {},
        }
    )
