"""Recall for coding agents: what fits a prompt, facts as of a commit, and notes on facts whose files changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from vmemo import Hit, Memory, Recalled
from vmemo_agents.repository import Repository, change_notes, files_of, with_notes
from vmemo_agents.retain import MEMORY_TAG

START_TOKENS, PROMPT_TOKENS = 1200, 600
"""Tokens of the text that is added at the start of a session, and to a prompt."""
MAX_HITS = 6
"""Facts that are added to a prompt."""
# Chosen on three sessions of our own: facts are added for 16 of 20 questions about them, and for 1 of 12 other prompts.
MIN_COSINE = 0.44
"""Least cosine between a prompt and a fact that has words in common with it."""
STEPS_COSINE = 0.3
"""The same for a procedure, whose many steps are not what is asked for: the cosine of the semantic channel's floor."""
SURE_COSINE = 0.68
"""Least cosine between a prompt and a fact that has none."""
MIN_WORDS = 3
"""Words of a prompt that says what it is about; "yes" and "go on" do not."""


@dataclass(frozen=True)
class AnchoredHit:
    """A recalled fact, the commit and files it was said about, and those of them that changed since."""

    hit: Hit
    commit: str | None
    files: tuple[str, ...]
    changed: tuple[str, ...]


async def session_context(memory: Memory, repository: Repository, me: str = "") -> str:
    """Return the text for the start of a session; empty if nothing is known of the project and the person."""
    banks = await _existing(memory, me)
    if not banks:
        return ""
    context = await memory.context(max_tokens=START_TOKENS, banks=banks)
    return element(with_notes(context.text, change_notes(repository, context.facts)))


async def prompt_context(
    memory: Memory, repository: Repository, prompt: str, *, session: str, shown: Collection[str] = (), me: str = ""
) -> tuple[str, list[str]]:
    """Return the text for a prompt, and the ids of the facts in it; nothing if no fact is relevant.

    Facts of the session itself and those that were shown in it are left out: the agent has them before its eyes.
    """
    if len(prompt.split()) < MIN_WORDS:
        return "", []
    banks = await _existing(memory, me)
    if not banks:
        return "", []
    found = await memory.recall(prompt[:4000], max_tokens=2 * PROMPT_TOKENS, banks=banks)
    fresh = [hit for hit in found.hits if hit.id not in shown and hit.fact.metadata.get("session") != session]
    hits = relevant(fresh)[:MAX_HITS]
    if not hits:
        return "", []
    text = found.model_copy(update={"hits": tuple(hits), "instructions": ()}).to_prompt(PROMPT_TOKENS)
    return element(with_notes(text, change_notes(repository, [hit.fact for hit in hits]))), [hit.id for hit in hits]


async def _existing(memory: Memory, me: str) -> list[str]:
    """Return the banks of the project and of the person, as far as they exist."""
    names: list[str] = [memory.name, me] if me and me != memory.name else [memory.name]
    return [name for name in names if await memory.bank(name).exists()]


def relevant(hits: list[Hit]) -> list[Hit]:
    """Return the hits that are near the prompt in meaning and in words; mostly none."""
    near = ((hit, hit.channels["semantic"].score) for hit in hits if "semantic" in hit.channels)
    return [hit for hit, cosine in near if cosine >= _least_cosine(hit)]


def _least_cosine(hit: Hit) -> float:
    if "keyword" not in hit.channels:
        return SURE_COSINE
    return STEPS_COSINE if hit.fact.is_procedure else MIN_COSINE


def element(text: str) -> str:
    """Return a text in the element that marks it as memory, in the agent's context and in its transcript."""
    return f"<{MEMORY_TAG}>\n{text}\n</{MEMORY_TAG}>" if text else ""


async def recall(
    memory: Memory,
    query: str,
    repository: Repository,
    *,
    at_commit: str | None = None,
    files: Collection[str] = (),
    max_tokens: int = 2048,
) -> tuple[Recalled, list[AnchoredHit]]:
    """Return facts by relevance with their anchors.

    With `at_commit`, a hash, tag or branch, only what was known by then and said at that commit, at one before it, or
    at none is returned. With `files`, only what was said about one of these files.
    """
    filters: dict[str, Any] = {"tags": [f"file:{path}" for path in files], "tags_match": "any"} if files else {}
    commit = None
    if at_commit is not None:
        commit = repository.commit(at_commit)
        filters["known_at"] = commit.time
    found = await memory.recall(query, max_tokens=max_tokens, **filters)
    anchored = [
        AnchoredHit(
            hit=hit,
            commit=str(said_at) if (said_at := hit.fact.metadata.get("commit")) else None,
            files=tuple(files_of(hit.fact)),
            changed=repository.changed(files_of(hit.fact)),
        )
        for hit in found.hits
    ]
    kept = [each for each in anchored if commit is None or each.commit is None or each.commit in commit.ancestors]
    return found.model_copy(update={"hits": tuple(each.hit for each in kept)}), kept
