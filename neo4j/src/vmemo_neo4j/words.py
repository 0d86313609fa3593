"""Search by words: a full-text index finds the candidates of a bank, exact BM25 ranks them.

The index scores with counts over all banks. That order is close enough to choose candidates; those with too few hits
that pass the filter are asked for again, all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final, LiteralString

from vmemo.models.search import Ranking, Scored
from vmemo.stores.sqlite.index.postings import K1, B, query_terms
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.filters import Filter
from vmemo_neo4j.terms import Kind, holders, token

CANDIDATES = 1000
"""Texts that are ranked at least; and four times as many as are wanted."""
EVERY = 2**31 - 1
_SCORE: Final[LiteralString] = (
    "reduce(sum = 0.0, term IN $terms | CASE WHEN words CONTAINS term.token THEN sum + term.rarity * "
    "(1 - more / (size(split(words, term.token)) - 1 + more)) ELSE sum END)"
)
"""BM25 of a text: n / (n + more) for each term that it holds n times, weighed by how rare the term is."""


def _statement(index: LiteralString, variable: LiteralString, condition: LiteralString) -> LiteralString:
    return (
        f"CALL db.index.fulltext.queryNodes('{index}', $query, {{limit: $candidates}}) YIELD node "
        f"WITH node, node AS {variable} WHERE {condition} "
        # Each use of a property reads it from the store.
        "WITH node, node.words AS words, $base + $slope * node.length AS more "
        f"WITH node, {_SCORE} AS score ORDER BY score DESC, node.seq LIMIT $limit"
    )


@dataclass(frozen=True)
class Corpus:
    """The indexed facts or messages of a bank: how many there are, and of how many words."""

    bank: str
    kind: Kind
    texts: int
    terms: int

    @property
    def average(self) -> float:
        """The average length. The bank's name is one more word of each message, as in SQLite's full-text search."""
        each = self.terms / self.texts
        return each + 1 if self.kind == "messages" else max(each, 1.0)

    def rarity(self, holding: int) -> float:
        """Return the weight of a term that some texts hold; a word that most messages have weighs next to nothing."""
        # A text that was stored after the corpus was counted may hold the term, too.
        holding = min(holding, self.texts)
        odds = (self.texts - holding + 0.5) / (holding + 0.5)
        return max(math.log(odds), 1e-6) if self.kind == "messages" else math.log(1 + odds)


async def matching(tx: Transaction, corpus: Corpus, passes: Filter, text: str, *, limit: int) -> Ranking:
    """Rank the facts or messages that hold words of a text by BM25."""
    if not corpus.texts:
        return Ranking()
    tokens = [token(corpus.bank, term) for term in query_terms(text)]
    known = await holders(tx, corpus.bank, corpus.kind, tokens) if tokens else {}
    if not known:
        return Ranking()
    wanted = max(CANDIDATES, 4 * limit)
    rows = await _ranked(tx, corpus, passes, known, limit=limit, candidates=wanted)
    if len(rows) < limit and sum(known.values()) > wanted:
        rows = await _ranked(tx, corpus, passes, known, limit=limit, candidates=EVERY)
    return Ranking.of(starmap(Scored, rows))


async def _ranked(
    tx: Transaction, corpus: Corpus, passes: Filter, known: Mapping[str, int], *, limit: int, candidates: int
) -> list[list[Any]]:
    facts = corpus.kind == "facts"
    index, variable = ("vmemo_fact_words", "f") if facts else ("vmemo_message_words", "m")
    slope = K1 * B / corpus.average
    return await tx.table(
        _statement(index, variable, passes.condition),
        # The tokens of messages are estimated here; recall counts the few it keeps.
        f"node.id, score, {'node.tokens' if facts else 'size(node.content) / 4 + 1'}",
        **passes.parameters,
        query=" ".join(known),
        terms=[{"token": each, "rarity": corpus.rarity(count) * (K1 + 1)} for each, count in sorted(known.items())],
        base=K1 * (1 - B) + (0 if facts else slope),
        slope=slope,
        candidates=candidates,
        limit=limit,
    )
