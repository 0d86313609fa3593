"""Retain: from messages to facts. `pipeline` is the way of a message; `extract` is its way through LLM jobs.

- Extraction: `local` by rules; `llm_extraction` with its input (`extraction_input`), answer schemas (`llm_schemas`) and
  conversion to drafts (`drafts_from_llm`).
- Episodes: `segment` finds their borders, `episodes` places messages in them, `group` does so for LLM jobs.
- `write_plan` turns drafts into the changes to commit: it resolves names (`entity_cache`, `resolve`), compares the
  facts with known ones (`revise`, `llm_judgements`) and links them (`link`).
"""
