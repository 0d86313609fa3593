"""What a new derivation of a bank can't bring back from its messages: opinions that reflection formed, entities that
were merged by hand, and names that were found to be another's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    insert,
    literal,
    or_,
    select,
    update,
)

from vmemo.stores.sql import name_rows, row_conditions
from vmemo.stores.sql.batch_rows import seqs_of
from vmemo.stores.sql.in_list import among
from vmemo.stores.sql.rows import AnyRow, dump, names_of
from vmemo.stores.sql.schema import (
    BASIS,
    EPISODE,
    MESSAGE,
    entities,
    entity_names,
    episode_messages,
    facts,
    mentions,
    merges,
    messages,
    moves,
    sources,
)
from vmemo.text.names.fold import fold_name, folded_names

Grounds = Mapping[int, set[int]]


def formed(bank: int) -> ColumnElement[bool]:
    """Whether a row of facts is an opinion that was formed, and not told.

    What is read from messages is read in an episode, and rests on no other facts. A formed opinion has no episode,
    unless somebody tells it later: messages behind it are evidence that was recalled in its own words.
    """
    known = sources.alias("known")
    own = known.c.bank == bank, known.c.fact == facts.c.seq
    read, rests = (exists().where(*own, known.c.kind == kind) for kind in (EPISODE, BASIS))
    return and_(facts.c.bank == bank, facts.c.network == "opinion", or_(~read, rests))


def untold(bank: int) -> Select[*tuple[object, ...]]:
    """Rows of the opinions that no message told, closed ones too."""
    return select(facts).where(formed(bank)).order_by(facts.c.seq)


def seed(connection: Connection, bank: int, shadow: int) -> None:
    """Give the shadow what it must know of names in advance.

    Entities that were merged by hand come with all their names; those with strangers by their own names alone, so that
    they do not take up those.
    """
    joined = _by_hand(connection, bank)
    rows = {row.seq: row for row in (*_with_strangers(connection, bank), *joined)}
    whole = {row.seq for row in joined}
    for row in rows.values():
        aliases = names_of(row.aliases) if row.seq in whole else ()
        known = {"id": row.id, "name": row.name, "type": row.type, "strangers": row.strangers}
        times = {"first_seen": row.first_seen, "last_seen": row.last_seen}
        new = insert(entities).values({"bank": shadow, "aliases": dump(aliases), **known, **times})
        seq = connection.execute(new.returning(entities.c.seq)).scalar_one()
        name_rows.replace(connection, shadow, {seq: folded_names(row.name, aliases)})


def _by_hand(connection: Connection, bank: int) -> list[AnyRow]:
    """Entities that others became part of; names alone are joined by reading, entities only by hand."""
    made = select(merges.c.entity).where(
        merges.c.bank == bank, merges.c.absorbed.is_not(None), merges.c.undone_at.is_(None)
    )
    joined = select(entities).where(row_conditions.bank_of(entities) == bank, entities.c.seq.in_(made))
    return list(connection.execute(joined.order_by(entities.c.seq)))


def estrange(connection: Connection, bank: int, shadow: int) -> None:
    """Add the strangers of the bank's entities to the shadow's of the same names; drop what was given and not used."""
    rows = _with_strangers(connection, bank)
    same = _counterparts(connection, shadow, rows)
    for row in rows:
        if row.seq in same:
            own = connection.execute(select(entities).where(row_conditions.row(entities, shadow, same[row.seq]))).one()
            names = {name.casefold() for name in (own.name, *names_of(own.aliases))}
            both = dict.fromkeys((*names_of(own.strangers), *names_of(row.strangers)))
            strange = dump([name for name in both if name.casefold() not in names])
            connection.execute(
                update(entities).where(row_conditions.row(entities, shadow, own.seq)).values(strangers=strange)
            )
    _drop_unused(connection, bank, shadow)


def _with_strangers(connection: Connection, bank: int) -> list[AnyRow]:
    statement = select(entities).where(entities.c.bank == bank, entities.c.strangers != "[]").order_by(entities.c.seq)
    return list(connection.execute(statement))


def _drop_unused(connection: Connection, bank: int, shadow: int) -> None:
    """Entities of the shadow that came from the bank and stand in no fact."""
    given = select(entities.c.id).where(entities.c.bank == bank).scalar_subquery()
    used = select(mentions.c.entity).where(mentions.c.bank == shadow).scalar_subquery()
    unused = select(entities.c.seq).where(
        entities.c.bank == shadow, entities.c.id.in_(given), entities.c.seq.not_in(used)
    )
    seqs = connection.execute(unused).scalars().all()
    connection.execute(delete(entity_names).where(entity_names.c.bank == shadow, among(entity_names.c.entity, seqs)))
    connection.execute(delete(entities).where(row_conditions.rows(entities, shadow, seqs)))


def _counterparts(connection: Connection, shadow: int, rows: Iterable[AnyRow]) -> dict[int, int]:
    """The shadow's entities that go by the names of these, by the numbers of these."""
    folded = {row.seq: fold_name(row.name) for row in rows}
    statement = (
        select(entity_names.c.name, entity_names.c.entity, entities.c.name.label("own"))
        .join(entities, row_conditions.points(entity_names, "entity", entities))
        .where(entity_names.c.bank == shadow, among(entity_names.c.name, set(folded.values())))
        .order_by(entity_names.c.entity)
    )
    found: dict[str, int] = {}
    for name, entity, own in connection.execute(statement).all():
        if name not in found or fold_name(own) == name:
            found[name] = entity
    return {seq: found[name] for seq, name in folded.items() if name in found}


def carry(connection: Connection, bank: int, shadow: int, opinions: Mapping[str, int]) -> None:
    """Make opinions of the bank, numbers by id, the shadow's, with what they rest on there and how they came to be."""
    if not opinions:
        return
    numbers = set(opinions.values())
    _rest(connection, bank, shadow, numbers)
    _mention(connection, bank, shadow, numbers)
    _move(connection, bank, shadow, numbers)
    # Last: an opinion is not what was read from its messages, and stands for no fact that was.
    _quote(connection, bank, shadow, numbers)
    moved = update(facts).where(row_conditions.rows(facts, bank, numbers))
    connection.execute(moved.where(~among(facts.c.supersedes, opinions)).values(supersedes=None))
    connection.execute(moved.values(bank=shadow))


def _rest(connection: Connection, bank: int, shadow: int, opinions: Set[int]) -> None:
    basis = _pairs(connection, bank, opinions)
    new = Lineage.of(connection, bank, shadow, opinions, {fact for behind in basis.values() for fact in behind})
    rows = [
        {"bank": shadow, "fact": opinion, "kind": BASIS, "source": ground}
        for opinion in sorted(opinions)
        for ground in sorted(new.heirs(basis.get(opinion, set())) - {opinion})
    ]
    if rows:
        connection.execute(insert(sources), rows)


def _mention(connection: Connection, bank: int, shadow: int, opinions: Set[int]) -> None:
    """Entities that the shadow does not know come along."""
    known = mentions.c.bank == bank, among(mentions.c.fact, opinions)
    named = select(entities).where(
        row_conditions.bank_of(entities) == bank, entities.c.seq.in_(select(mentions.c.entity).where(*known))
    )
    rows = list(connection.execute(named))
    taken = seqs_of(connection, entities, shadow, (row.id for row in rows))
    same = {row.seq: taken[row.id] for row in rows if row.id in taken} | _counterparts(connection, shadow, rows)
    alone = [row.seq for row in rows if row.seq not in same]
    connection.execute(update(entities).where(row_conditions.rows(entities, bank, alone)).values(bank=shadow))
    own = entity_names.c.bank == bank, among(entity_names.c.entity, alone)
    connection.execute(update(entity_names).where(*own).values(bank=shadow))
    found = select(mentions.c.fact, mentions.c.entity, mentions.c.said).where(*known)
    ordered = connection.execute(found.order_by(mentions.c.fact, mentions.c.entity)).all()
    said = {(fact, same.get(entity, entity)): words for fact, entity, words in ordered}
    values = [{"bank": shadow, "fact": fact, "entity": entity, "said": said[fact, entity]} for fact, entity in said]
    if values:
        connection.execute(insert(mentions), values)


def _move(connection: Connection, bank: int, shadow: int, opinions: Set[int]) -> None:
    """Steps of the opinions; their evidence becomes what was read from the same messages."""
    own = moves.c.bank == bank, among(moves.c.fact, opinions)
    rows = connection.execute(select(moves.c.seq, moves.c.evidence).where(*own)).all()
    old = seqs_of(connection, facts, bank, (id for row in rows for id in names_of(row.evidence)))
    new = Lineage.of(connection, bank, shadow, opinions, set(old.values()))
    ids = _ids(connection, (bank, shadow), {heir for seq in old.values() for heir in new.heirs([seq])})
    for row in rows:
        heirs = new.heirs(old[id] for id in names_of(row.evidence) if id in old)
        values = {"bank": shadow, "evidence": dump([ids[heir] for heir in sorted(heirs)])}
        connection.execute(update(moves).where(row_conditions.row(moves, bank, row.seq)).values(values))


def _quote(connection: Connection, bank: int, shadow: int, opinions: Set[int]) -> None:
    """Messages behind the opinions; the shadow has copies of them all."""
    copies = messages.alias("copies")
    behind = (
        select(literal(shadow, BigInteger), sources.c.fact, sources.c.kind, copies.c.seq)
        .join(messages, row_conditions.points(sources, "source", messages))
        .join(copies, (copies.c.bank == shadow) & (copies.c.id == messages.c.id))
        .where(sources.c.bank == bank, sources.c.kind == MESSAGE, among(sources.c.fact, opinions))
    )
    connection.execute(insert(sources).from_select(["bank", "fact", "kind", "source"], behind))


def _ids(connection: Connection, banks: tuple[int, int], seqs: Iterable[int]) -> dict[int, str]:
    known = select(facts.c.seq, facts.c.id).where(row_conditions.bank_of(facts).in_(banks), among(facts.c.seq, seqs))
    return dict(connection.execute(known).all())


def _pairs(connection: Connection, bank: int, of: Iterable[int], kind: int = BASIS) -> dict[int, set[int]]:
    """What facts come from, of one kind."""
    found: dict[int, set[int]] = defaultdict(set)
    statement = select(sources.c.fact, sources.c.source).where(
        sources.c.bank == bank, sources.c.kind == kind, among(sources.c.fact, of)
    )
    for fact, source in connection.execute(statement).all():
        found[fact].add(source)
    return dict(found)


@dataclass(frozen=True)
class Lineage:
    """Which facts of a shadow stand for facts of its bank."""

    staying: Set[int]
    basis: Grounds
    told: Grounds
    shared: Grounds
    """The shadow's facts by the number of a message of the bank that both were read from."""
    beside: Grounds
    """The same of the message's whole episode."""

    @staticmethod
    def of(connection: Connection, bank: int, shadow: int, staying: Set[int], of: Set[int]) -> Lineage:
        """The lineage of these facts and of those they rest on; the staying ones stand for themselves."""
        basis: dict[int, set[int]] = {}
        seen, edge = set(of), set(of)
        while edge:
            further = _pairs(connection, bank, edge)
            basis |= further
            edge = {fact for behind in further.values() for fact in behind} - seen
            seen |= edge
        told = _pairs(connection, bank, seen, MESSAGE)
        said = {message for behind in told.values() for message in behind}
        shared = _read_from(connection, bank, shadow, said)
        beside = _read_beside(connection, bank, shadow, said - shared.keys())
        return Lineage(staying, basis, told, shared, beside)

    def heirs(self, of: Iterable[int]) -> set[int]:
        """What stands for these facts: what was read from the same messages, or else beside them in an episode."""
        found: set[int] = set()
        seen, edge = set[int](), set(of)
        while edge:
            seen |= edge
            found |= edge & self.staying
            gone = edge - self.staying
            for fact in gone:
                found |= self._read(fact)
            edge = {ground for fact in gone if fact not in self.told for ground in self.basis.get(fact, ())} - seen
        return found

    def _read(self, fact: int) -> set[int]:
        said = self.told.get(fact, set[int]())
        shared = {heir for message in said for heir in self.shared.get(message, ())}
        return shared or {heir for message in said for heir in self.beside.get(message, ())}


def _read_from(connection: Connection, bank: int, shadow: int, said: Iterable[int]) -> dict[int, set[int]]:
    copies = messages.alias("copies")
    statement = (
        select(messages.c.seq, sources.c.fact)
        .join(copies, (copies.c.bank == shadow) & (copies.c.id == messages.c.id))
        .join(
            sources,
            (sources.c.bank == shadow) & (sources.c.kind == MESSAGE) & (sources.c.source == copies.c.seq),
        )
        .where(row_conditions.rows(messages, bank, said))
    )
    return _grouped(connection, statement)


def _read_beside(connection: Connection, bank: int, shadow: int, said: Iterable[int]) -> dict[int, set[int]]:
    copies, held, others = messages.alias("copies"), episode_messages.alias("held"), episode_messages.alias("others")
    statement = (
        select(messages.c.seq, sources.c.fact)
        .join(copies, (copies.c.bank == shadow) & (copies.c.id == messages.c.id))
        .join(held, (held.c.bank == shadow) & (held.c.message == copies.c.seq))
        .join(others, (others.c.bank == shadow) & (others.c.episode == held.c.episode))
        .join(
            sources,
            (sources.c.bank == shadow) & (sources.c.kind == MESSAGE) & (sources.c.source == others.c.message),
        )
        .where(row_conditions.rows(messages, bank, said))
    )
    return _grouped(connection, statement)


def _grouped(connection: Connection, statement: Select[*tuple[int, int]]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for key, value in connection.execute(statement).all():
        found[key].add(value)
    return dict(found)
