"""Retain: from messages to facts. `pipeline` is the way of a message; `llm_pipeline` is its way through LLM jobs.

- Extraction: `local_extraction` by rules; `llm_extraction` with the schemas and conversion of its `llm_answers`.
- `episodes` finds the borders of episodes and places messages in them.
- `write_plan` turns drafts into the changes to commit: it resolves names (`entities`), compares the facts with known
  ones (`revise`, `revise_by_model`) and links them.
"""
