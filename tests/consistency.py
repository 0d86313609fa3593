"""Queries for rows that contradict each other, which no fault may leave in a database."""

from __future__ import annotations

from databases import counts

BROKEN = {
    "a fact without its message": """SELECT count(*) FROM facts f
        WHERE f.network IN ('world', 'experience') AND NOT EXISTS (SELECT 1 FROM sources s
        JOIN messages m ON m.seq = s.source WHERE s.bank = f.bank AND s.fact = f.seq AND s.kind = 0)""",
    "a fact without its episode": """SELECT count(*) FROM facts f
        WHERE f.network IN ('world', 'experience') AND NOT EXISTS (SELECT 1 FROM sources s
        JOIN episodes e ON e.seq = s.source WHERE s.bank = f.bank AND s.fact = f.seq AND s.kind = 2)
        AND NOT EXISTS (SELECT 1 FROM sources s JOIN messages m ON m.seq = s.source
        WHERE s.bank = f.bank AND s.fact = f.seq AND s.kind = 0 AND m.state = 'curated')""",
    "a source of no fact": "SELECT count(*) FROM sources WHERE fact NOT IN (SELECT seq FROM facts)",
    "a mention of no fact or entity": """SELECT count(*) FROM mentions
        WHERE fact NOT IN (SELECT seq FROM facts) OR entity NOT IN (SELECT seq FROM entities)""",
    "a link to no fact": """SELECT count(*) FROM links
        WHERE source NOT IN (SELECT seq FROM facts) OR target NOT IN (SELECT seq FROM facts)""",
    "a derived message without facts, or an unread one with": """SELECT count(*) FROM messages m WHERE
        m.state != 'curated' AND (m.state = 'derived') != EXISTS
        (SELECT 1 FROM sources s WHERE s.bank = m.bank AND s.kind = 0 AND s.source = m.seq)""",
    "a derived message that is not in one episode": """SELECT count(*) FROM messages m WHERE
        m.state != 'curated' AND CASE m.state WHEN 'derived' THEN 1 ELSE 0 END !=
        (SELECT count(*) FROM episode_messages e WHERE e.bank = m.bank AND e.message = m.seq)""",
    "two entities of one name": """SELECT count(*) FROM
        (SELECT 1 FROM entities GROUP BY bank, name HAVING count(*) > 1) AS repeated""",
}
BROKEN_SQLITE = {
    "a fact without its vector and terms": """SELECT count(*) FROM facts f WHERE NOT EXISTS (SELECT 1 FROM fact_blocks b
        WHERE b.bank = f.bank AND f.seq BETWEEN b.first AND b.last)""",
    "a block with other facts than the bank": """SELECT count(*) FROM fact_blocks b WHERE length(vectors) != count * 68
        OR count != (SELECT count(*) FROM facts f WHERE f.bank = b.bank AND f.seq BETWEEN b.first AND b.last)""",
    "a block without its properties": """SELECT count(*) FROM fact_blocks b FULL JOIN block_properties p
        ON p.block = b.id WHERE p.block IS NULL OR b.id IS NULL""",
    "a row that refers to nothing": "SELECT count(*) FROM pragma_foreign_key_check",
    "a page that can't be read": "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'",
}
BROKEN_POSTGRES = {
    "a fact without its vector": """SELECT count(*) FROM facts f LEFT JOIN fact_search i USING (bank, seq)
        WHERE i.seq IS NULL OR vector_dims(i.embedding) != 64""",
    "a vector without its fact": "SELECT count(*) FROM fact_search WHERE seq NOT IN (SELECT seq FROM facts)",
    "a fact without all its terms": """SELECT count(*) FROM fact_search i WHERE length !=
        (SELECT sum(count) FROM postings p WHERE p.bank = i.bank AND p.fact = i.seq)""",
    "a term of no fact": "SELECT count(*) FROM postings WHERE fact NOT IN (SELECT seq FROM facts)",
    "an index of another size than is noted": """SELECT count(*) FROM search_sizes s WHERE facts !=
        (SELECT count(*) FROM fact_search i WHERE i.bank = s.bank) OR fact_terms !=
        (SELECT coalesce(sum(length), 0) FROM fact_search i WHERE i.bank = s.bank)""",
}


def assert_whole(url: str) -> None:
    """Check that no rows contradict each other."""
    broken = {**BROKEN, **(BROKEN_SQLITE if url.startswith("sqlite") else BROKEN_POSTGRES)}
    assert counts(url, broken) == {}
