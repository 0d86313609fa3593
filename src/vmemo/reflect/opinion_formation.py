"""Opinions that an answer comes to: written down with what is behind them, once, and moved by new evidence only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from vmemo.models import BankId, ConfidenceChange, Fact, FactId, Mention, Stance, new_id, utc_now
from vmemo.models.changes import Changes, FactClosure, NewFact
from vmemo.ports import Context, Store, encodings
from vmemo.reflect.answer import Thought
from vmemo.reflect.citations import bare, named
from vmemo.reflect.evidence import Material
from vmemo.reflect.llm_schemas import FormedOpinion
from vmemo.reflect.opinions import counted, moved
from vmemo.reflect.prompt_building import engine_label
from vmemo.text.fact_text import embedded_text

_FILLING = frozenset("i a an the that think believe feel find really very quite".split())
"""Words that make no opinion another one."""
MOST = 5
"""Opinions that one answer may come to."""


@dataclass(frozen=True)
class Formed:
    """What became of opinions: those that are new, and steps of those that were held."""

    opinions: tuple[Fact, ...] = ()
    moves: tuple[ConfidenceChange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Step:
    """How evidence is to move a held opinion."""

    opinion: FactId
    stance: Stance
    evidence: tuple[FactId, ...]
    reason: str = ""


async def form(bank: BankId, thought: Thought, asked: datetime, context: Context) -> Formed:
    """Write down the opinions of a thought. If the bank changes meanwhile, they are compared with what is held then."""
    fresh = await _fresh(bank, thought, asked, context)
    steps = _steps(thought)
    while fresh or steps:
        revision = await context.store.revision(bank)
        change = await _Change.of(bank, fresh, steps, context.store)
        change.decide(fresh, steps, asked)
        if not change.new and not change.moves:
            break
        batch = Changes(
            bank=bank,
            facts=change.new,
            closures=change.closings,
            confidence=change.moves,
            revision=revision,
            embedder=context.embedder.name,
        )
        if await context.store.commit(batch):
            return Formed(tuple(item.fact for item in change.new), tuple(change.moves))
    return Formed()


async def _fresh(bank: BankId, thought: Thought, asked: datetime, context: Context) -> list[NewFact]:
    wanted = [each for each in thought.given.opinions if thought.checks.founded(each)][:MOST]
    facts = [_opinion(bank, each, thought.material, asked, context) for each in wanted]
    texts = [embedded_text(fact.text, fact.mentioned_at) for fact in facts]
    found = await encodings(context.embedder, texts, "document")
    return [NewFact(fact=f, embedding=e.vector, tokens=e.tokens) for f, e in zip(facts, found, strict=True)]


def _opinion(bank: BankId, formed: FormedOpinion, material: Material, asked: datetime, context: Context) -> Fact:
    behind = material.facts(mark for mark in named(formed.facts) if mark[0] in "FS")
    text = _line(formed.text)
    old = next(map(material.id, named([formed.instead_of])), None)
    return Fact(
        id=FactId(new_id()),
        bank=bank,
        network="opinion",
        text=text,
        tokens=context.counter(text),
        mentioned_at=asked,
        valid_at=asked,
        confidence=formed.confidence or 0.0,
        entities=_named(text, behind),
        messages=tuple(dict.fromkeys(id for fact in behind if fact.engine == "verbatim" for id in fact.messages)),
        basis=tuple(dict.fromkeys(id for fact in behind for id in _grounds(fact))),
        supersedes=old,
        engine=engine_label(context.engine),
    )


def _line(text: str) -> str:
    """Words of a model as they can be kept: marks mean nothing later, and stores take no control characters."""
    return " ".join(bare(text).split())


def _grounds(fact: Fact) -> tuple[FactId, ...]:
    """The facts that stand behind an opinion which cites this: of a summary, those that it sums up."""
    if fact.engine == "verbatim":
        return ()
    return fact.basis if fact.network == "observation" else (fact.id,)


def _named(text: str, behind: Iterable[Fact]) -> tuple[Mention, ...]:
    """Those of the entities behind an opinion that it is about."""
    found: dict[str, Mention] = {}
    for mention in (mention for fact in behind for mention in fact.entities):
        names = "|".join(re.escape(name) for name in (mention.name, mention.said) if name)
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.IGNORECASE):
            found.setdefault(mention.id, mention.model_copy(update={"said": ""}))
    return tuple(found.values())


def _steps(thought: Thought) -> list[_Step]:
    usable = (each for each in thought.given.revised if thought.checks.baseless(each) is None)
    return [
        _Step(
            opinion=thought.material.facts(named([each.opinion]))[0].id,
            stance=each.stance,
            evidence=tuple(f.id for f in thought.material.facts(named(each.evidence)) if f.engine != "verbatim"),
            reason=_line(each.reason),
        )
        for each in usable
        if each.stance != "neutral"
    ]


@dataclass(frozen=True)
class _Change:
    """What is believed and has counted by now, and what is to change."""

    held: dict[FactId, Fact]
    counted: dict[FactId, set[FactId]]
    there: Set[str]
    """Facts and messages that were not forgotten meanwhile."""
    new: list[NewFact] = field(default_factory=list[NewFact])
    closings: list[FactClosure] = field(default_factory=list[FactClosure])
    moves: list[ConfidenceChange] = field(default_factory=list[ConfidenceChange])

    @staticmethod
    async def of(bank: BankId, fresh: Sequence[NewFact], steps: Sequence[_Step], store: Store) -> _Change:
        """The present, as far as it matters to these."""
        held = await store.believed(bank, "opinion")
        basis = {id for item in fresh for id in item.fact.basis} | {id for step in steps for id in step.evidence}
        said = {id for item in fresh for id in item.fact.messages}
        facts = await store.facts(bank, sorted(basis))
        messages = await store.messages(bank, sorted(said))
        there = {str(each.id) for each in (*facts, *messages)}
        return _Change({fact.id: fact for fact in held}, counted(held, await store.moves(bank)), there)

    def decide(self, fresh: Sequence[NewFact], steps: Sequence[_Step], asked: datetime) -> None:
        """Keep what is new, and turn what is held already into a step of that."""
        told_again = [step for item in fresh if (step := self._place(item, asked)) is not None]
        for step in (*steps, *told_again):
            self._move(step)

    def _place(self, item: NewFact, asked: datetime) -> _Step | None:
        fact = item.fact
        basis = tuple(id for id in fact.basis if id in self.there)
        said = tuple(id for id in fact.messages if id in self.there)
        if not basis and not said:
            return None
        old = fact.supersedes if fact.supersedes in self.held else None
        if any(_alike(fact, new.fact) for new in self.new):
            return None
        if (same := self._same(fact, beside=old)) is not None:
            return _Step(opinion=same, stance="reinforce", evidence=basis, reason="It was come to again.")
        kept = fact.model_copy(update={"basis": basis, "messages": said, "supersedes": old})
        self.new.append(NewFact(fact=kept, embedding=item.embedding, tokens=item.tokens))
        if old is not None:
            # Who asks as of an earlier day does not make it end before it began.
            ended = max(asked, self.held.pop(old).valid_at or asked)
            self.closings.append(FactClosure(fact=old, invalid_at=ended, expired_at=utc_now()))
        return None

    def _same(self, fact: Fact, *, beside: FactId | None) -> FactId | None:
        """The opinion that this one is already."""
        return next((id for id, held in self.held.items() if id != beside and _alike(fact, held)), None)

    def _move(self, step: _Step) -> None:
        """A step by evidence that has not counted yet, and only one for each opinion."""
        opinion = self.held.get(step.opinion)
        known = self.counted.get(step.opinion, set())
        evidence = tuple(id for id in step.evidence if id in self.there and id not in known)
        if opinion is None or not evidence or any(move.opinion == opinion.id for move in self.moves):
            return
        before = opinion.confidence or 0.0
        after = moved(before, step.stance)
        self.moves.append(
            ConfidenceChange(
                opinion=opinion.id,
                stance=step.stance,
                before=before,
                after=after,
                evidence=evidence,
                reason=step.reason,
                at=utc_now(),
            )
        )


def _alike(one: Fact, other: Fact) -> bool:
    """Whether two opinions have the same words; nearness in meaning does not tell an opinion from its contrary."""
    return _core(one.text) == _core(other.text)


def _core(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in _FILLING]
