"""The Neo4j store."""
