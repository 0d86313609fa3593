"""Queries for rows that contradict each other, which no fault may leave in a database."""

from __future__ import annotations

from databases import counts, store_name

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
    "a fact without its vector and terms": """SELECT count(*) FROM facts f LEFT JOIN fact_index i ON i.fact = f.seq
        WHERE i.fact IS NULL OR length(vector) != 64""",
    "a vector without its fact": "SELECT count(*) FROM fact_index WHERE fact NOT IN (SELECT seq FROM facts)",
    "a row that refers to nothing": "SELECT count(*) FROM pragma_foreign_key_check",
    "a page that can't be read": "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'",
}
BROKEN_POSTGRES = {
    "a fact without its vector": """SELECT count(*) FROM facts f LEFT JOIN fact_vectors i USING (bank, seq)
        WHERE i.seq IS NULL OR vector_dims(i.embedding) != 64""",
    "a vector without its fact": "SELECT count(*) FROM fact_vectors WHERE seq NOT IN (SELECT seq FROM facts)",
    "a fact without its words": """SELECT count(*) FROM facts LEFT JOIN fact_words USING (bank, seq)
        WHERE words IS NULL""",
    "words of no fact": "SELECT count(*) FROM fact_words WHERE seq NOT IN (SELECT seq FROM facts)",
    "token vectors of no fact": "SELECT count(*) FROM fact_tokens WHERE seq NOT IN (SELECT seq FROM facts)",
    "an index of another size than is noted": """SELECT count(*) FROM search_sizes s WHERE facts !=
        (SELECT count(*) FROM fact_words i WHERE i.bank = s.bank) OR fact_terms !=
        (SELECT coalesce(sum(cardinality(words)), 0) FROM fact_words i WHERE i.bank = s.bank)""",
}


BROKEN_NEO4J = {
    "a fact without its message": """MATCH (f:Fact {bank: b.key}) WHERE f.network IN ['world', 'experience']
        AND NOT EXISTS { (f)-[:SOURCE]->(:Message) }""",
    "a fact without its episode": """MATCH (f:Fact {bank: b.key}) WHERE f.network IN ['world', 'experience']
        AND NOT EXISTS { (f)-[:IN_EPISODE]->(:Episode) }
        AND NOT EXISTS { (f)-[:SOURCE]->(:Message {state: 'curated'}) }""",
    "a relationship to another bank": "MATCH (f:Fact {bank: b.key})-->(n) WHERE n.bank <> b.key",
    "a derived message without facts, or an unread one with": """MATCH (m:Message {bank: b.key})
        WHERE m.state <> 'curated' AND (m.state = 'derived') <> EXISTS { (m)<-[:SOURCE]-(:Fact) }""",
    "a derived message that is not in one episode": """MATCH (m:Message {bank: b.key}) WHERE m.state <> 'curated'
        AND CASE m.state WHEN 'derived' THEN 1 ELSE 0 END <> COUNT { (m)<-[:CONTAINS]-(:Episode) }""",
    "two entities of one name": """MATCH (e:Entity {bank: b.key}) WITH e.name AS name, count(*) AS entities
        WHERE entities > 1""",
    "a fact without its vector and words": """MATCH (f:Fact {bank: b.key})
        WHERE f.embedding IS NULL OR size(f.embedding) <> 64 OR f.words IS NULL""",
    "an index of another size than is noted": """MATCH (f:Fact {bank: b.key})
        WITH count(f) AS facts,
             coalesce(sum(CASE f.words WHEN '' THEN 0 ELSE size(split(f.words, ' ')) END), 0) AS terms
        WHERE facts <> coalesce(b.fact_count, 0) OR terms <> coalesce(b.fact_terms, 0)""",
}


def assert_whole(url: str) -> None:
    """Check that no rows contradict each other."""
    broken = {
        "sqlite": {**BROKEN, **BROKEN_SQLITE},
        "postgres": {**BROKEN, **BROKEN_POSTGRES},
        "neo4j": BROKEN_NEO4J,
    }
    assert counts(url, broken[store_name(url)]) == {}
