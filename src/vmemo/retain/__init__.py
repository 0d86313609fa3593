"""Retain: from messages to facts.

1. `prepare` validates the content and returns messages; `pipeline.store_messages` stores them.
2. Without an LLM, `derive` runs the `local` extractor on pending messages and places them in `episodes` (`segment`).
   With an LLM, jobs first `group` the messages into episodes and then `extract` each episode (`llm_extraction`).
3. `write_plan` embeds the drafts, resolves names (`resolve`), compares the facts with known ones (`revise`) and links
   them (`link`). The result is committed as one unit against the bank's revision.
"""
