"""Cypher conditions of a scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo.models import utc_now
from vmemo.models.search import Scope
from vmemo.stores.search import all_of, messages_in_time, tag_conditions, visible_facts
from vmemo.stores.values import micros, storable
from vmemo.text.names.compare import fold_name
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import metadata_items


class CypherParameters(dict[str, object]):
    """The parameters of a statement."""

    def add(self, value: object) -> str:
        """Add a value and return its placeholder."""
        name = f"value_{len(self)}"
        self[name] = value
        return f"${name}"

    def times(self) -> Callable[[datetime], str]:
        """Return a function that adds each time once."""
        known: dict[datetime, str] = {}
        return lambda time: known.get(time) or known.setdefault(time, self.add(time))


@dataclass(frozen=True)
class CypherFilter:
    """A scope of one bank at one time, with the ids of the entities that it names."""

    bank: str
    scope: Scope
    now: datetime
    entities: Sequence[str] = ()

    @staticmethod
    async def of(tx: Transaction, bank: str, scope: Scope) -> CypherFilter:
        """Return the filter of a scope; entities that it names are looked up."""
        entities = await _named_entities(tx, bank, scope.entities) if scope.entities else []
        return CypherFilter(bank, scope, utc_now(), entities)

    def parameters(self, **others: object) -> CypherParameters:
        """Return the parameters of a new statement."""
        return CypherParameters(bank=self.bank, **others)

    def facts(self, values: CypherParameters, fact: str = "f") -> str:
        """Return the condition of facts."""
        scope = self.scope
        found = [f"{fact}.bank = $bank", *visible_facts(scope, fact, self.now, values.times())]
        if scope.networks:
            found.append(f"{fact}.network IN {values.add(sorted(scope.networks))}")
        # A fact occurred within an interval if a part of it did.
        if scope.occurred is not None and scope.occurred.end is not None:
            found.append(f"{fact}.began < {values.add(micros(scope.occurred.end))}")
        if scope.occurred is not None and scope.occurred.start is not None:
            found.append(f"{fact}.ended > {values.add(micros(scope.occurred.start))}")
        if scope.entities:
            named = values.add(self.entities)
            found.append(f"EXISTS {{ MATCH ({fact})-[:MENTIONS]->(named:Entity) WHERE named.id IN {named} }}")
        if scope.speakers:
            names = values.add([*scope.speakers])
            found.append(f"EXISTS {{ MATCH ({fact})-[:SOURCE]->(said:Message) WHERE said.speaker IN {names} }}")
        untagged = f"size({fact}.tags) = 0 AND {fact}.network IN ['world', 'experience']"
        return all_of([*found, *self._labels(values, fact, untagged)])

    def messages(self, values: CypherParameters) -> str:
        """Return the condition of messages `m` that may be shown verbatim.

        A message has no facts, or a visible one: otherwise a superseded fact would come back in its words.
        """
        visible = all_of(visible_facts(self.scope, "f", self.now, values.times()))
        found = [
            "m.bank = $bank",
            *messages_in_time(self.scope, "m", self.now, values.times()),
            "(NOT EXISTS { MATCH (m)<-[:SOURCE]-(:Fact) } "
            f"OR EXISTS {{ MATCH (m)<-[:SOURCE]-(f:Fact) WHERE {visible} }})",
        ]
        if self.scope.speakers:
            found.append(f"m.speaker IN {values.add([*self.scope.speakers])}")
        return all_of([*found, *self._labels(values, "m", "size(m.tags) = 0")])

    def _labels(self, values: CypherParameters, record: str, untagged: str) -> list[str]:
        """Return the conditions for the scope's tags and metadata."""
        held = [f"{values.add(tag)} IN {record}.tags" for tag in sorted(self.scope.tags)]
        count = f"size({record}.tags)"
        items = [f"{values.add(item)} IN {record}.metadata_items" for item in metadata_items(self.scope.metadata)]
        return [*tag_conditions(self.scope.tags_match, held, untagged=untagged, count=count), *items]


async def _named_entities(tx: Transaction, bank: str, names: Iterable[str]) -> list[str]:
    """Return the ids of entities that have one of these ids, names or aliases, without regard to case.

    The folded names lead to few of them, whose own names are then compared. A name of signs alone has no folded one.
    """
    given = [name for name in names if storable(name)]
    wanted, folded = {name.casefold() for name in given}, {fold_name(name) for name in given}
    found = await tx.table(
        "CALL () { MATCH (e:Entity {bank: $bank}) WHERE e.id IN $given RETURN e "
        "UNION MATCH (n:EntityName {bank: $bank})<-[:KNOWN_AS]-(e:Entity) WHERE n.name IN $folded RETURN e "
        "UNION MATCH (e:Entity {bank: $bank}) WHERE $unfolded AND e.id > '' RETURN e }",
        "e.id, e.name, e.aliases",
        bank=bank,
        given=given,
        folded=sorted(folded),
        unfolded="" in folded,
    )
    return [
        id
        for id, name, aliases in found
        if id in given or not wanted.isdisjoint(known.casefold() for known in (name, *aliases))
    ]
