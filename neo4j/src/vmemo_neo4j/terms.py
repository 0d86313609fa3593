"""The words of texts as the full-text indexes hold them, and their counts in a bank.

A term is stored as a hash of the bank's key and the word: banks have no term in common, so that an index finds only
texts of one bank, and what an index still holds of a deleted text can't be read. `Term` nodes count the texts of a bank
that hold a term, and the bank's node its texts and their words, because the scores of the indexes compare all banks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, LiteralString

from vmemo_neo4j.connection import Transaction

Kind = Literal["facts", "messages"]
TOKEN_BYTES: Final = 6
_LABELS: Final[dict[Kind, LiteralString]] = {"facts": "Fact", "messages": "Message"}
_COUNTS: Final[dict[Kind, tuple[LiteralString, LiteralString]]] = {
    "facts": ("fact_count", "fact_terms"),
    "messages": ("message_count", "message_terms"),
}


def _written(kind: Kind) -> LiteralString:
    """Return the statement that writes texts and counts: one, because each is a round trip."""
    texts, terms = _COUNTS[kind]
    return (
        f"CALL () {{ UNWIND $texts AS row MATCH (n:{_LABELS[kind]} {{bank: $bank, id: row.id}}) "
        "SET n.words = row.words, n.length = row.length } "
        "CALL () { UNWIND $counts AS row MERGE (t:Term {bank: $bank, token: row.token}) "
        f"SET t.{kind} = coalesce(t.{kind}, 0) + row.count }} "
        "CALL () { UNWIND $fewer AS token MATCH (t:Term {bank: $bank, token: token}) "
        "WHERE coalesce(t.facts, 0) <= 0 AND coalesce(t.messages, 0) <= 0 DELETE t } "
        f"MATCH (b:Bank {{key: $bank}}) SET b.{texts} = coalesce(b.{texts}, 0) + $more_texts, "
        f"b.{terms} = coalesce(b.{terms}, 0) + $more_terms"
    )


_WRITTEN: Final[dict[Kind, LiteralString]] = {"facts": _written("facts"), "messages": _written("messages")}


def token(bank: str, term: str) -> str:
    """Return a term's hash, the same in all texts of a bank."""
    salted = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=TOKEN_BYTES, key=bank.encode("utf-8")[:64])
    return salted.hexdigest()


def words_of(bank: str, terms: Iterable[str]) -> str:
    """Return the terms of a text as its node holds them, with repetition."""
    known: dict[str, str] = {}
    return " ".join(known.get(term) or known.setdefault(term, token(bank, term)) for term in terms)


def length(words: str) -> int:
    """Return the number of terms of a text."""
    return len(words.split())


@dataclass
class TermChanges:
    """Texts that come into an index and leave it."""

    written: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The words of texts by id; None for a text that leaves."""
    texts: int = 0
    terms: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, id: str, words: str) -> None:
        """Add a text."""
        self.written[id] = words
        self.count(words, 1)

    def remove(self, id: str, words: str) -> None:
        """Remove a text."""
        self.written[id] = None
        self.count(words, -1)

    def count(self, words: str, sign: Literal[1, -1]) -> None:
        """Count the words of a text whose node has them already, or no longer."""
        tokens = words.split()
        self.texts += sign
        self.terms += sign * len(tokens)
        for each in set(tokens):
            self.counts[each] += sign


async def removed(tx: Transaction, bank: str, kind: Kind, ids: Sequence[str]) -> TermChanges:
    """Return the changes if some texts leave the index; those that are not in it are left out."""
    found = await tx.rows(
        f"UNWIND $ids AS id MATCH (n:{_LABELS[kind]} {{bank: $bank, id: id}}) WHERE n.words IS NOT NULL "
        "RETURN id, n.words AS words",
        bank=bank,
        ids=list(ids),
    )
    changes = TermChanges()
    for row in found:
        changes.remove(row["id"], row["words"])
    return changes


async def write(tx: Transaction, bank: str, kind: Kind, changes: TermChanges) -> None:
    """Write texts of a bank that is locked, and the counts of their terms."""
    if not changes.written and not changes.texts:
        return
    texts = [
        {"id": id, "words": words, "length": None if words is None else length(words)}
        for id, words in changes.written.items()
    ]
    # In the same order everywhere, for each takes a lock.
    counts = sorted((each, change) for each, change in changes.counts.items() if change)
    await tx.run(
        _WRITTEN[kind],
        bank=bank,
        texts=texts,
        counts=[{"token": each, "count": change} for each, change in counts],
        fewer=[each for each, change in counts if change < 0],
        more_texts=changes.texts,
        more_terms=changes.terms,
    )


async def holders(tx: Transaction, bank: str, kind: Kind, tokens: Sequence[str]) -> dict[str, int]:
    """Return how many texts of a bank hold each of some terms; terms that none holds are left out."""
    found = await tx.table(
        "UNWIND $tokens AS token MATCH (t:Term {bank: $bank, token: token})",
        f"token, t.{kind}",
        bank=bank,
        tokens=list(tokens),
    )
    return {token: count for token, count in found if count}
