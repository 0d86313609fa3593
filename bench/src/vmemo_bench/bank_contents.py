"""Contents of a bank after a run: counts and merged names, and what a language model spent to derive them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from vmemo import Memory
from vmemo.models import Entity, Fact, LinkKind
from vmemo.models.results import Spending
from vmemo.providers import count_tokens
from vmemo_bench.datasets import Case
from vmemo_bench.json_files import FileRecord
from vmemo_bench.report import Table
from vmemo_bench.statistics import Metrics

STEPS = ("segment", "predict", "extract", "extract_small", "judge", "identify", "opinions", "observe")
STORED_LINKS = tuple(kind for kind in get_args(LinkKind) if kind != "entity")
"""Kinds of links that are stored; links through entities are computed."""


class BankAudit(FileRecord):
    """Counts of one bank, and the names that became aliases with the name of their entity."""

    counts: Mapping[str, int]
    merged: Mapping[str, str]


async def audit_bank(memory: Memory, file: Path) -> BankAudit:
    """Audit a bank; its export is written to `file` to count links, and deleted."""
    await memory.export(file)
    links = _count_links(file)
    status = await memory.status()
    merges = [merge for merge in await memory.merges() if merge.undone_at is None]
    entities: list[Entity] = []
    while page := await memory.entities(after=entities[-1].id if entities else None, limit=1000):
        entities += page
    names = {entity.id: entity.name for entity in entities}
    return BankAudit(
        counts={
            "episodes": status.episodes,
            "facts": status.facts,
            "closed": status.closed_facts,
            "entities": status.entities,
            "merges": len(merges),
            **{kind: links[kind] for kind in STORED_LINKS},
        },
        merged={", ".join(merge.names): names[merge.entity] for merge in merges if merge.entity in names},
    )


def _count_links(file: Path) -> Counter[str]:
    with file.open(encoding="utf-8") as lines:
        kinds = Counter(str(json.loads(line)["kind"]) for line in lines if '"record": "link"' in line)
    file.unlink()
    return kinds


def audit_tables(audits: Mapping[str, BankAudit]) -> dict[str, Table]:
    """Return the audits of all cases as tables of the report."""
    if not audits:
        return {}
    total = Counter[str]()
    for audit in audits.values():
        total.update(audit.counts)
    return {
        "banks": {case: audit.counts for case, audit in audits.items()} | {"all": dict(total)},
        "merged names": {
            f"{case} {name}": {"entity": entity}
            for case, audit in audits.items()
            for name, entity in audit.merged.items()
        },
    }


@dataclass(frozen=True, kw_only=True)
class RetainCost:
    """Amount of retained material, and the model usage of each step."""

    messages: int = 0
    episodes: int = 0
    facts: int = 0
    spending: tuple[Spending, ...] = ()

    def __add__(self, other: RetainCost) -> RetainCost:
        steps = {each.step: each for each in self.spending}
        for each in other.spending:
            steps[each.step] = _sum(steps[each.step], each) if each.step in steps else each
        order = [*(step for step in STEPS if step in steps), *sorted(steps.keys() - set(STEPS))]
        return RetainCost(
            messages=self.messages + other.messages,
            episodes=self.episodes + other.episodes,
            facts=self.facts + other.facts,
            spending=tuple(steps[step] for step in order),
        )

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.spending)

    @property
    def tokens(self) -> int:
        """Input and output tokens of all steps."""
        return sum(each.input_tokens + each.output_tokens for each in self.spending)


def _sum(one: Spending, other: Spending) -> Spending:
    names = ("calls", "failures", "input_tokens", "output_tokens")
    return one.model_copy(update={name: getattr(one, name) + getattr(other, name) for name in names})


class BankCost(FileRecord):
    """The cost of one bank, and the tokens of its messages and of the current facts and observations."""

    cost: RetainCost
    source_tokens: int
    fact_tokens: int
    observations: int
    observation_tokens: int


async def bank_cost(memory: Memory, case: Case) -> BankCost:
    """Return the cost and the size of a filled bank."""
    status = await memory.status()
    current = [fact for fact in await all_facts(memory) if fact.invalid_at is None and fact.expired_at is None]
    facts = [fact for fact in current if fact.network in ("world", "experience")]
    observations = [fact for fact in current if fact.network == "observation"]
    return BankCost(
        cost=RetainCost(messages=status.messages, episodes=status.episodes, facts=len(facts), spending=status.spending),
        source_tokens=sum(count_tokens(turn.text) for session in case.sessions for turn in session.turns),
        fact_tokens=sum(fact.tokens for fact in facts),
        observations=len(observations),
        observation_tokens=sum(fact.tokens for fact in observations),
    )


async def all_facts(memory: Memory) -> list[Fact]:
    """Return all facts of a bank, also closed ones."""
    found: list[Fact] = []
    while page := await memory.facts(after=found[-1].id if found else None, limit=1000):
        found += page
    return found


def bank_metrics(banks: Sequence[BankCost]) -> Metrics:
    """Return the size of the derived text relative to its source, and calls and tokens of retain."""
    total = sum((bank.cost for bank in banks), RetainCost())
    source = max(1, sum(bank.source_tokens for bank in banks))
    facts, observations = (
        sum(each) for each in zip(*((b.fact_tokens, b.observation_tokens) for b in banks), strict=True)
    )
    spent = {each.step: each.input_tokens + each.output_tokens for each in total.spending}
    return {
        "derived_over_source": (facts + observations) / source,
        "facts_over_source": facts / source,
        "tokens_per_fact": facts / max(1, total.facts),
        "facts_per_episode": total.facts / max(1, total.episodes),
        "messages_per_episode": total.messages / max(1, total.episodes),
        "retain_calls_per_episode": total.calls / max(1, total.episodes),
        "retain_tokens_per_message": total.tokens / max(1, total.messages),
        "observe_share_of_tokens": spent.get("observe", 0) / max(1, total.tokens),
    }


def bank_tables(banks: Mapping[str, BankCost]) -> dict[str, Table]:
    """Return the contents of each bank, and the calls and tokens of each step of retain."""
    total = sum((bank.cost for bank in banks.values()), RetainCost())
    rows = {each.step: _step_row(each, total) for each in total.spending}
    contents: Table = {
        case: {
            "messages": bank.cost.messages,
            "episodes": bank.cost.episodes,
            "facts": bank.cost.facts,
            "observations": bank.observations,
            "source tokens": bank.source_tokens,
            "fact tokens": bank.fact_tokens,
            "observation tokens": bank.observation_tokens,
            "calls": bank.cost.calls,
            "tokens": bank.cost.tokens,
        }
        for case, bank in banks.items()
    }
    columns = dict.fromkeys(name for row in rows.values() for name in row)
    return {
        "retained": contents,
        "retain by step": {**rows, "all": {name: sum(row[name] for row in rows.values()) for name in columns}},
    }


def _step_row(spending: Spending, total: RetainCost) -> dict[str, float]:
    messages = max(1, total.messages)
    return {
        "calls": float(spending.calls),
        "failures": float(spending.failures),
        "calls / episode": spending.calls / max(1, total.episodes),
        "tokens in / message": spending.input_tokens / messages,
        "tokens out / message": spending.output_tokens / messages,
        "tokens / message": (spending.input_tokens + spending.output_tokens) / messages,
    }
