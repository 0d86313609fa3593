"""Finding the entities that a text names: every name is kept folded, and every run of words is looked up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, select

from vmemo.models import Entity, EntityId, Mention
from vmemo.stores.sql import row_conditions
from vmemo.stores.sql.in_list import among, later, listed
from vmemo.stores.sql.schema import entities, entity_names

LONGEST = 8
"""Words of a name that is looked up in a text; of a script without spaces, twice as many characters."""
MOST_WORDS = 64
"""Words of a text that are looked at; a longer one is no question about a few entities."""
# Without spaces a name may stand between any two characters, so each is a word. Katakana shows where it ends.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002ffff"
)
# The vowel signs of Indic scripts are no letters to Python, and yet belong to their word.
_SPACED = rf"(?:[\u0900-\u0963\u0966-\u0dff]|(?![{_UNSPACED}])[^\W_])"
_WORD = re.compile(rf"[{_UNSPACED}]|{_SPACED}+(?:[-.]{_SPACED}+)*")
_ALONE = re.compile(f"[{_UNSPACED}]")
_OWNER = re.compile(r"['\u2019]s\b")
_ACCENT = 10
"""Combining classes from here on are accents and points, which many leave out; below stand parts of a letter."""


class Run(NamedTuple):
    """Words of a text that may be a name, and where they stand in it."""

    name: str
    start: int
    end: int

    def within(self, other: Run) -> bool:
        """Whether a longer run holds this one."""
        return other.start <= self.start and self.end <= other.end and self.end - self.start < other.end - other.start


def fold(name: str) -> str:
    """A name as it is compared: its words in lower case, without accents, punctuation and possessive endings."""
    return " ".join(_words(name))


def _words(text: str) -> Iterator[str]:
    lower = text.casefold()
    if not lower.isascii():
        spread = unicodedata.normalize("NFKD", lower)
        lower = unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.combining(c) < _ACCENT))
    return (match[0] for match in _WORD.finditer(_OWNER.sub("", lower)))


def folded_names(name: str, aliases: Iterable[str]) -> set[str]:
    """Every different form an entity is found by."""
    return {folded for folded in map(fold, (name, *aliases)) if folded}


def runs(text: str) -> Iterator[Run]:
    """Every run of words that may be a name."""
    words = list(islice(_words(text), MOST_WORDS))
    for start in range(len(words)):
        room = 2 * LONGEST
        for end in range(start, len(words)):
            room -= 1 if _ALONE.match(words[end]) else 2
            if room < 0:
                break
            yield Run(" ".join(words[start : end + 1]), start, end + 1)


def save(connection: Connection, bank: int, new: Sequence[Entity], seqs: Mapping[str, int]) -> None:
    """Keep the names of new or changed entities."""
    last = {seqs[entity.id]: folded_names(entity.name, entity.aliases) for entity in new}
    replace(connection, bank, last)


def replace(connection: Connection, bank: int, names: Mapping[int, set[str]]) -> None:
    """Give entities the folded names they are found by from now on."""
    known = entity_names.c.bank == bank, among(entity_names.c.entity, names)
    connection.execute(delete(entity_names).where(*known))
    rows = [{"bank": bank, "name": name, "entity": seq} for seq in names for name in sorted(names[seq])]
    if rows:
        connection.execute(insert(entity_names), rows)


_NAMED = (
    select(entity_names.c.name, entities.c.id, entities.c.name.label("known_as"), entities.c.type)
    .join(entities, row_conditions.points(entity_names, "entity", entities))
    .where(entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.name, later("names")))
    .order_by(entity_names.c.name, entity_names.c.entity)
)


def named(connection: Connection, bank: int, text: str) -> list[Mention]:
    """Entities whose name stands in the text; where a longer name stands, the shorter ones inside it don't count."""
    possible = list(runs(text))
    rows = connection.execute(_NAMED, {"bank": bank, "names": listed({run.name for run in possible})}).all()
    known = {name for name, *_ in rows}
    found = [run for run in possible if run.name in known]
    whole = {run.name for run in found if not any(run.within(other) for other in found)}
    mentions = {
        id: Mention.trusted({"id": EntityId(id), "name": known_as, "type": type, "said": ""})
        for name, id, known_as, type in rows
        if name in whole
    }
    return list(mentions.values())
