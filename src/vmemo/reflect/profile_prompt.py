"""The prompt that updates profiles: what fits of them and of the new facts, each fact once, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.models import EntityId, Fact, FactId
from vmemo.models.recalled import TRUNCATED
from vmemo.ports import LLMRequest
from vmemo.reflect.entity_profiles import EntityProfile
from vmemo.reflect.llm_schemas import EntityProfiles, ProfileRevision

PROMPTS = Path(__file__).parent / "prompts"
PROMPT_CHARACTERS = 12_000
"""Characters of profiles and facts in one prompt; more are divided among several calls."""
MAX_PROFILES = 8
"""Profiles in one prompt; their length bounds the answer."""
MAX_STATEMENTS = 5
MAX_BASIS = 8
"""Facts behind a statement, the latest."""
LINE_CHARACTERS = 300
"""Characters of a fact or statement that are shown."""
LABEL_CHARACTERS = 20
"""Characters that stand before a fact, and those of a day, at most."""


@dataclass(frozen=True, kw_only=True)
class NewStatement:
    """A statement of a profile to write, the facts that it rests on, and the statements that it replaces."""

    text: str
    basis: tuple[FactId, ...]
    replaces: Sequence[Fact] = ()


@dataclass(frozen=True, kw_only=True)
class ProfileChanges:
    """Statements of one profile to write, and others to close."""

    written: Sequence[NewStatement] = ()
    dropped: Sequence[Fact] = ()


@dataclass
class ProfilePrompt:
    """Profiles and facts that fit into one prompt, by their numbers in it."""

    profiles: dict[str, EntityProfile] = field(default_factory=dict[str, EntityProfile])
    shown: dict[EntityId, int] = field(default_factory=dict[EntityId, int])
    """New facts of each entity that are shown."""
    statements: dict[str, Fact] = field(default_factory=dict[str, Fact])
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])

    @staticmethod
    def of(profiles: Sequence[EntityProfile]) -> ProfilePrompt:
        """Return a prompt of the first profiles and as many of their facts as fit; at least one fact of the first."""
        prompt, left = ProfilePrompt(), PROMPT_CHARACTERS
        chosen: dict[FactId, Fact] = {}
        for profile in profiles[:MAX_PROFILES]:
            left -= sum(len(_shortened(each.text)) + LABEL_CHARACTERS for each in _numbered(profile))
            fitting, left = _fitting(profile.facts, chosen, left - LABEL_CHARACTERS - len(profile.entity.name))
            if not fitting and profile.facts and prompt.profiles:
                break
            prompt._add(profile, len(fitting))
            chosen |= {fact.id: fact for fact in fitting}
        ordered = sorted(chosen.values(), key=lambda fact: (fact.mentioned_at, fact.recorded_at))
        prompt.facts = {f"F{n}": fact for n, fact in enumerate(ordered, start=1)}
        return prompt

    def _add(self, profile: EntityProfile, shown: int) -> None:
        self.profiles[f"E{len(self.profiles) + 1}"] = profile
        self.shown[profile.entity.id] = shown
        for each in _numbered(profile):
            self.statements[f"S{len(self.statements) + 1}"] = each

    def is_complete(self, profile: EntityProfile) -> bool:
        """Return True if no new fact of a profile is left for another prompt."""
        shown = self.shown[profile.entity.id]
        return profile.rebuilt or not shown or (shown == len(profile.facts) and not profile.more)

    def cursor(self, profile: EntityProfile) -> FactId | None:
        """Return the last fact that a profile covers after the update."""
        shown = self.shown[profile.entity.id]
        return profile.cursor if profile.rebuilt or not shown else profile.facts[shown - 1].id

    def request(self) -> LLMRequest:
        """Return the request for the changes to the profiles."""
        profiles, facts = quote(self._profile_lines()), quote(self._fact_lines())
        return load_prompt(PROMPTS, "observe").request(EntityProfiles, profiles=profiles, facts=facts)

    def _profile_lines(self) -> list[str]:
        numbers = {each.id: number for number, each in self.statements.items()}
        lines: list[str] = []
        for number, profile in self.profiles.items():
            lines.append(f"{number} | {profile.entity.name} ({profile.entity.type.lower()})")
            lines += [f"{numbers[each.id]} | {_shortened(each.text)}" for each in profile.statements]
            lines += [f"{numbers[each.id]} outdated | {_shortened(each.text)}" for each in profile.outdated]
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
            lines.append(f"{number} {about} | {_shortened(fact.text)}")
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

    def changes(self, answer: EntityProfiles) -> dict[EntityId, ProfileChanges]:
        """Return the changes to each profile. What the answer does not mention stays."""
        found = {self.profiles[each.entity].entity.id: each for each in answer.profiles}
        return {
            profile.entity.id: ProfileChanges(
                written=self._written(found[profile.entity.id], profile),
                dropped=[self.statements[label] for label in found[profile.entity.id].drop],
            )
            if profile.entity.id in found
            else ProfileChanges()
            for profile in self.profiles.values()
        }

    def _removed(self, update: ProfileRevision, profile: EntityProfile) -> set[FactId]:
        """Return the statements that an update drops or replaces, without those that are outdated anyway."""
        labels = {*update.drop, *(label for each in update.write for label in each.instead_of)}
        return {self.statements[label].id for label in labels} & {each.id for each in profile.statements}

    def _written(self, update: ProfileRevision, profile: EntityProfile) -> list[NewStatement]:
        """Return the statements to write: new ones, and outdated ones that the model keeps for the rest of their facts.

        A sentence that repeats a statement is none, unless it replaces that one.
        """
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


def _numbered(profile: EntityProfile) -> list[Fact]:
    return [*profile.statements, *profile.outdated]


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
