"""Entity profiles: which are due, the prompt that updates them, and the observations that are written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema, StructuredLLM
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Mention, new_fact_id, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease
from vmemo.models.recalled import TRUNCATED
from vmemo.models.records import ended_behind, first_expiry, is_supported, is_true, least_facts
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.ports import Context, LLMRequest, Store
from vmemo.text.temporal.annotation import embed_facts

PAGE = 200
"""New facts of an entity that are read at a time."""
LEAST_NEW_FACTS = 16
"""New facts about an entity below which the model is not called for it; half of it if a statement lost support."""
NEW_FACTS = 30
"""New facts from which a profile is updated; a young one already when the facts about its entity have doubled."""
MAX_OUTDATED = 5
"""Statements without support that are shown to the model: the latest."""


@dataclass(frozen=True, kw_only=True)
class EntityProfile:
    """An entity with its profile, and the current facts that the profile does not cover yet, oldest first."""

    entity: Entity
    statements: Sequence[Fact]
    outdated: Sequence[Fact]
    """The latest statements that lost their support since the last update."""
    unsupported: Sequence[Fact]
    """All statements that lost their support and are still stored as current."""
    support: Mapping[FactId, Sequence[FactId]]
    """The facts behind each of these that are still true."""
    weakened: Mapping[FactId, Sequence[str]]
    """Statements that have support and rest on a fact that ended as well, wholly or in part, with what ended."""
    seen: int
    facts: Sequence[Fact]
    cursor: FactId | None
    """The last of these facts in the order they were stored."""
    more: bool = False
    rebuilt: bool = False
    """The profile is made again: `facts` are all that no statement cites, the most important first."""

    def is_due(self, *, early: bool = False) -> bool:
        """Return True if the entity matters and enough about it is new to call the model.

        With `early` a call is made anyway: then half as much is enough, as for a profile with outdated statements, and
        for a first profile the least number of facts.
        """
        least = least_facts(self.entity.type)
        if least is None or not (self.facts or self.outdated):
            return False
        if self.rebuilt:
            return bool(self.statements) or len(self.facts) >= least
        needed = min(NEW_FACTS, max(LEAST_NEW_FACTS, self.seen))
        if self.outdated or (early and self.seen):
            needed = max(1, needed // 2)
        return len(self.facts) >= (needed if self.seen else least if early else max(least, needed))


async def load_profiles(bank: BankId, jobs: Mapping[EntityId, bool], store: Store) -> list[EntityProfile]:
    """Return the profiles of the entities that exist; True stands for a profile that is rebuilt."""
    observations = await store.facts(bank, FactSelect(entities=list(jobs), networks=("observation",)))
    ids = dict.fromkeys(id for each in observations for id in each.basis)
    basis = {fact.id: fact for fact in await store.facts(bank, FactSelect(ids=list(ids)))}
    profiles: list[EntityProfile] = []
    for entity in await store.entities(bank, EntitySelect(ids=list(jobs))):
        own = [each for each in observations if any(mention.id == entity.id for mention in each.entities)]
        profiles.append(await _load(bank, entity, own, basis, store, force=jobs[entity.id]))
    return profiles


async def _load(
    bank: BankId,
    entity: Entity,
    observations: Sequence[Fact],
    basis: Mapping[FactId, Fact],
    store: Store,
    *,
    force: bool,
) -> EntityProfile:
    """Return the profile of an entity with the given observations, current and closed."""
    now = utc_now()
    last = max(observations, key=lambda each: each.recorded_at, default=None)
    supported = {each.id for each in observations if is_supported(each, basis, now)}
    statements = [each for each in observations if each.id in supported and is_true(each, now)]
    # A statement that an update closed ended at the time of that update, which recorded others. One that lost support
    # because a part of a fact ended has ended too, though that fact is true.
    outdated = [
        each
        for each in observations
        if (each.id not in supported if each.expired_at is None else last and each.expired_at > last.recorded_at)
    ]
    seen = None if last is None else last.metadata.get("seen")
    newest: FactId | None = None
    if last is not None:
        # The last fact that the profile covers may be forgotten.
        found = await store.facts(bank, FactSelect(ids=[FactId(str(last.metadata.get("newest")))]))
        newest = found[0].id if found else None
    rebuilt = force or (last is not None and newest is None)
    cited = {id for each in statements for id in each.basis} if rebuilt else set[FactId]()
    select = FactSelect(entities=[entity.id], networks=("world", "experience"), current=True)
    page = select if rebuilt else replace(select, after=newest, limit=PAGE)
    facts = list(await store.facts(bank, page))
    # Standing instructions have a section of their own, and what the agent advised says little about anybody.
    new = [each for each in facts if each.id not in cited and each.network == "world" and not each.instruction]
    return EntityProfile(
        entity=entity,
        statements=statements,
        outdated=outdated[-MAX_OUTDATED:],
        unsupported=[each for each in outdated if each.expired_at is None],
        weakened={each.id: ended for each in statements if (ended := ended_behind(each, basis, now))},
        support={e.id: [id for id in e.basis if is_true(basis.get(id), now)] for e in (*statements, *outdated)},
        seen=len(facts) - len(new) if rebuilt or not isinstance(seen, int) else seen,
        facts=sorted(new, key=lambda fact: -fact.importance) if rebuilt else new,
        cursor=facts[-1].id if facts else newest,
        more=not rebuilt and len(facts) == PAGE,
        rebuilt=rebuilt,
    )


PROMPT_CHARACTERS = 12_000
"""Characters of profiles and facts in one prompt; more are divided among several calls."""
MAX_PROFILES = 8
MAX_STATEMENTS = 5
MAX_BASIS = 8
"""Facts behind a statement, the latest."""
LINE_CHARACTERS = 300
"""Characters of a fact or statement that are shown."""
LABEL_CHARACTERS = 20
"""Characters that stand before a fact, and those of a day, at most."""


class ProfileStatement(AnswerSchema):
    """A new sentence of a profile."""

    text: Annotated[str, Field(min_length=1, max_length=600)]
    facts: list[str] = Field(description="F numbers that support it, S numbers whose content it retains")
    instead_of: list[str] = Field(default_factory=list[str], description="S numbers that it replaces")


class ProfileRevision(AnswerSchema):
    """The changes to one profile."""

    entity: str = Field(description="E number")
    keep: list[str] = Field(default_factory=list[str], description="S numbers")
    drop: list[str] = Field(default_factory=list[str], description="S numbers")
    write: list[ProfileStatement] = Field(default_factory=list[ProfileStatement])


class EntityProfiles(AnswerSchema):
    """The changes to the given profiles."""

    profiles: list[ProfileRevision]


@dataclass(frozen=True, kw_only=True)
class NewStatement:
    """A statement of a profile to write, the facts that it rests on, and the statements that it replaces."""

    text: str
    basis: tuple[FactId, ...]
    replaces: Sequence[Fact] = ()


@dataclass(frozen=True, kw_only=True)
class EntityProfileUpdate:
    """Statements of one profile to write, others to close, and the number of new facts that the model was shown."""

    profile: EntityProfile
    written: Sequence[NewStatement]
    dropped: Sequence[Fact]
    shown: int

    @property
    def is_complete(self) -> bool:
        """True if no new fact is left for another prompt."""
        return self._covers_all or (self.shown == len(self.profile.facts) and not self.profile.more)

    @property
    def coverage(self) -> dict[str, str | int | None]:
        """The last fact that the profile covers after the update, and the number of those that it covers."""
        newest = self.profile.cursor if self._covers_all else self.profile.facts[self.shown - 1].id
        return {"newest": newest, "seen": self.profile.seen + self.shown}

    @property
    def _covers_all(self) -> bool:
        return self.profile.rebuilt or not self.shown


@dataclass
class ProfilePrompt:
    """Profiles and facts that fit into one prompt, by their numbers in it."""

    profiles: dict[str, EntityProfile] = field(default_factory=dict[str, EntityProfile])
    shown: dict[EntityId, int] = field(default_factory=dict[EntityId, int])
    statements: dict[str, Fact] = field(default_factory=dict[str, Fact])
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])

    @staticmethod
    def of(profiles: Sequence[EntityProfile]) -> ProfilePrompt:
        """Return a prompt of the first profiles and as many of their facts as fit; at least one fact of the first."""
        prompt, left = ProfilePrompt(), PROMPT_CHARACTERS
        chosen: dict[FactId, Fact] = {}
        for profile in profiles[:MAX_PROFILES]:
            shown = (*profile.statements, *profile.outdated)
            left -= sum(len(_shortened(each.text)) + LABEL_CHARACTERS for each in shown)
            fitting, left = _fitting(profile.facts, chosen, left - LABEL_CHARACTERS - len(profile.entity.name))
            if not fitting and profile.facts and prompt.profiles:
                break
            prompt.profiles[f"E{len(prompt.profiles) + 1}"] = profile
            prompt.shown[profile.entity.id] = len(fitting)
            prompt.statements |= {f"S{n}": each for n, each in enumerate(shown, start=len(prompt.statements) + 1)}
            chosen |= {fact.id: fact for fact in fitting}
        ordered = sorted(chosen.values(), key=lambda fact: (fact.mentioned_at, fact.recorded_at))
        prompt.facts = {f"F{n}": fact for n, fact in enumerate(ordered, start=1)}
        return prompt

    def request(self) -> LLMRequest:
        profiles, facts = quote(self._profile_lines()), quote(self._fact_lines())
        return load_prompt("reflect", "observe").request(EntityProfiles, profiles=profiles, facts=facts)

    def _profile_lines(self) -> list[str]:
        numbers = {each.id: number for number, each in self.statements.items()}
        lines: list[str] = []
        for number, profile in self.profiles.items():
            lines.append(f"{number} | {profile.entity.name} ({profile.entity.type.lower()})")
            ended = {id: ", ".join(map(_shortened, texts)) for id, texts in profile.weakened.items()}
            marks = {id: f' partly outdated ("{text}")' for id, text in ended.items()}
            marks |= {each.id: " outdated" for each in profile.outdated}
            shown = (*profile.statements, *profile.outdated)
            lines += [f"{numbers[each.id]}{marks.get(each.id, '')} | {_shortened(each.text)}" for each in shown]
        return lines

    def _fact_lines(self) -> list[str]:
        numbers = {profile.entity.id: number for number, profile in self.profiles.items()}
        lines: list[str] = []
        day = ""
        for number, fact in self.facts.items():
            if (said := f"{fact.mentioned_at:%d %B %Y}:") != day:
                day = said
                lines.append(day)
            about = " ".join(numbers[mention.id] for mention in fact.entities if mention.id in numbers)
            lines.append(f"{number} {about} | {_shortened(fact.text_with_ends)}")
        return lines or ["none"]

    def feedback(self, answer: EntityProfiles) -> str | None:
        """Return what the model must correct, or None."""
        given = [each.entity for each in answer.profiles]
        if not self.profiles.keys() >= set(given) or len(set(given)) != len(given):
            return f"update only these profiles, once each: {', '.join(self.profiles)}"
        updates = {each.entity: each for each in answer.profiles}
        problems = (self._problem(number, updates.get(number)) for number in self.profiles)
        return next((problem for problem in problems if problem is not None), None)

    def _problem(self, number: str, update: ProfileRevision | None) -> str | None:
        profile, chosen = self.profiles[number], update or ProfileRevision(entity=number)
        own = {label for label, each in self.statements.items() if each.id in profile.support}
        named = {*chosen.keep, *chosen.drop, *(label for each in chosen.write for label in each.instead_of)}
        if not own >= named:
            return f"{', '.join(sorted(named - own))}: no statement of {number}"
        citable = own | self.facts.keys()
        if any(not each.facts or not citable >= set(each.facts) for each in chosen.write):
            return f"a sentence about {number} names no fact, or a fact that was not shown"
        after = len(profile.statements) - len(self._removed(chosen, profile)) + len(self._written(chosen, profile))
        if after > MAX_STATEMENTS:
            return f"the profile of {number} would have {after} statements; keep at most {MAX_STATEMENTS}"
        return None if after or profile.outdated else f"{number} has no statement"

    def updates(self, answer: EntityProfiles) -> list[EntityProfileUpdate]:
        """Return the update of each profile. What the answer does not mention stays."""
        given = {each.entity: each for each in answer.profiles}
        revisions = [given.get(number) or ProfileRevision(entity=number) for number in self.profiles]
        return [
            EntityProfileUpdate(
                profile=profile,
                written=self._written(revision, profile),
                dropped=[self.statements[label] for label in revision.drop],
                shown=self.shown[profile.entity.id],
            )
            for profile, revision in zip(self.profiles.values(), revisions, strict=True)
        ]

    def _removed(self, update: ProfileRevision, profile: EntityProfile) -> set[FactId]:
        """Return the statements that an update drops or replaces, without those that are outdated anyway."""
        labels = {*update.drop, *(label for each in update.write for label in each.instead_of)}
        return {self.statements[label].id for label in labels} & {each.id for each in profile.statements}

    def _written(self, update: ProfileRevision, profile: EntityProfile) -> list[NewStatement]:
        """Return the statements to write: new ones that repeat none, and outdated ones kept for their other facts."""
        known = {each.text for each in profile.statements} - {
            self.statements[label].text for each in update.write for label in (*each.instead_of, *update.drop)
        }
        new = [
            NewStatement(
                text=each.text.strip(),
                basis=self._basis(each.facts, profile.support),
                replaces=[self.statements[label] for label in each.instead_of],
            )
            for each in update.write
            if each.text.strip() not in known
        ]
        outdated = {each.id for each in profile.outdated}
        renewed = [
            NewStatement(text=each.text, basis=tuple(profile.support[each.id]), replaces=[each])
            for label in dict.fromkeys(update.keep)
            if (each := self.statements[label]).id in outdated
        ]
        return [each for each in (*new, *renewed) if each.basis]

    def _basis(self, labels: Sequence[str], support: Mapping[FactId, Sequence[FactId]]) -> tuple[FactId, ...]:
        """Return the facts of F numbers and those behind S numbers, at most a few."""
        behind = [id for label in labels if label in self.statements for id in support[self.statements[label].id]]
        cited = [self.facts[label].id for label in labels if label in self.facts]
        return tuple(dict.fromkeys((*behind, *cited)))[-MAX_BASIS:]


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_CHARACTERS else flat[: LINE_CHARACTERS - len(TRUNCATED)] + TRUNCATED


def _fitting(facts: Sequence[Fact], chosen: Mapping[FactId, Fact], left: int) -> tuple[list[Fact], int]:
    """Return the first facts that fit into the characters that are left, and those that remain."""
    fitting: list[Fact] = []
    days = {fact.mentioned_at.date() for fact in chosen.values()}
    for fact in facts:
        cost = 4 if fact.id in chosen else len(_shortened(fact.text)) + LABEL_CHARACTERS
        cost += 0 if fact.mentioned_at.date() in days else LABEL_CHARACTERS
        if cost > left:
            break
        days.add(fact.mentioned_at.date())
        fitting.append(fact)
        left -= cost
    return fitting, left


async def update_observations(
    bank: BankId, leases: Mapping[EntityId, Lease], forced: Collection[EntityId], context: Context, llm: StructuredLLM
) -> int:
    """Update the profiles that are due, with one call for as many as fit, and return the number of new statements.

    Each entity has the lease of its job; `forced` profiles are rebuilt even if nothing is new. Statements that lost
    their support are closed in any case. Each job is completed in the transaction of its profile; one whose new facts
    do not fit into a prompt is held until a later call has seen them all.
    """
    writer, waiting, written = _ProfileWriter(bank, context, llm), dict(leases), 0
    begun = set[EntityId]()
    while waiting:
        profiles = await load_profiles(bank, {id: id in forced for id in waiting}, context.store)
        due = [each for each in profiles if each.is_due() or (each.entity.id in begun and each.facts)]
        if due:
            # Profiles that will be due soon share the call, and the facts that are about several entities.
            due = [each for each in profiles if each in due or each.is_due(early=True)]
        others = waiting.keys() - {each.entity.id for each in due}
        unsupported = {each.entity.id: each.unsupported for each in profiles if each.entity.id in others}
        await writer.finish({id: waiting.pop(id) for id in others}, unsupported)
        if not due:
            break
        due.sort(key=lambda each: -len(each.facts))
        prompt = ProfilePrompt.of(due)
        answer = await llm.ask(prompt.request(), EntityProfiles, prompt.feedback)
        for update in prompt.updates(answer):
            id = update.profile.entity.id
            lease = waiting.pop(id)
            count = await writer.write(update, lease)
            written += count or 0
            if count is not None and not update.is_complete:
                waiting[id] = lease
                begun.add(id)
    return written


@dataclass(frozen=True)
class _ProfileWriter:
    bank: BankId
    context: Context
    llm: StructuredLLM

    async def finish(self, leases: Mapping[EntityId, Lease], unsupported: Mapping[EntityId, Sequence[Fact]]) -> None:
        """Close the unsupported statements of profiles that are not due, and complete their jobs."""
        if not leases:
            return
        closed = [fact for facts in unsupported.values() for fact in facts]
        changes = Changes(bank=self.bank, closures=_closures(closed, utc_now()), finished=list(leases.values()))
        if not await self.context.store.commit(changes) and len(leases) > 1:
            # A job was lost to another worker, which must not keep the others from being completed.
            for id, lease in leases.items():
                await self.finish({id: lease}, {id: unsupported.get(id, ())})

    async def write(self, update: EntityProfileUpdate, lease: Lease) -> int | None:
        """Close the statements that are dropped or replaced and write the new ones; None if the lease was lost."""
        store = self.context.store
        while True:
            revision, now = await store.revision(self.bank), utc_now()
            new, closed = await self._planned(update, now)
            changes = Changes(
                bank=self.bank,
                facts=await embed_facts(new, self.context.embedder),
                closures=_closures(closed, now, [*new, *update.profile.facts]),
                spending=self.llm.spending,
                lease=None if update.is_complete else lease,
                finished=[lease] if update.is_complete else (),
                revision=revision,
                embedder=self.context.embedder.name,
            )
            if await store.commit(changes):
                self.llm.take_usage()
                return len(new)
            if not await store.renew([lease], lease.seconds):
                return None

    async def _planned(self, update: EntityProfileUpdate, now: datetime) -> tuple[list[Fact], list[Fact]]:
        """Return the statements to write and close; one that rests on a fact closed meanwhile is not written."""
        written, profile = update.written, update.profile
        ids = dict.fromkeys(id for each in written for id in each.basis)
        facts = {fact.id: fact for fact in await self.context.store.facts(self.bank, FactSelect(ids=list(ids)))}
        holding = [each for each in written if all(is_true(facts.get(id), now) for id in each.basis)]
        replaced = [*update.dropped, *(old for each in holding for old in each.replaces), *profile.unsupported]
        closed = {each.id: each for each in replaced}
        kept = [each for each in profile.statements if each.id not in closed]
        if not holding and kept:
            # The latest statement records what the profile covers, so one is written again.
            last = kept[-1]
            closed[last.id] = last
            changed = {"id": FactId(new_fact_id()), "recorded_at": now, "metadata": update.coverage}
            new = [last.model_copy(update=changed)]
        else:
            new = [self._observation(each, facts, update, now) for each in holding]
        current = await self.context.store.facts(self.bank, FactSelect(ids=list(closed)))
        return new, [each for each in current if each.expired_at is None]

    def _observation(
        self, statement: NewStatement, facts: Mapping[FactId, Fact], update: EntityProfileUpdate, now: datetime
    ) -> Fact:
        entity = update.profile.entity
        latest = max(facts[id].mentioned_at for id in statement.basis)
        return Fact(
            id=FactId(new_fact_id()),
            bank=self.bank,
            network="observation",
            text=statement.text,
            tokens=self.context.counter(statement.text),
            mentioned_at=latest,
            valid_at=latest,
            recorded_at=now,
            entities=(Mention(id=entity.id, name=entity.name, type=entity.type),),
            basis=statement.basis,
            expires_at=first_expiry(facts[id].expires_at for id in statement.basis),
            metadata=update.coverage,
            engine=f"{self.llm.name}/{load_prompt('reflect', 'observe').label}",
        )


def _closures(statements: Sequence[Fact], now: datetime, newer: Sequence[Fact] = ()) -> list[FactClosure]:
    """Close statements at the time of the newest fact that led to it, which is not the time of processing."""
    ended = max((fact.mentioned_at for fact in newer), default=None)
    starts = {each.id: each.valid_at or each.mentioned_at for each in statements}
    return [FactClosure(fact=id, invalid_at=max(start, ended or start), expired_at=now) for id, start in starts.items()]
