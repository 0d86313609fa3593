"""Tools that query a bank: recall, context and reflect."""

from __future__ import annotations

from pydantic import Field

from vmemo.models import Interval
from vmemo.models.base import Name
from vmemo.models.recalled import NOTHING
from vmemo.models.request_fields import QueryText, Tokens
from vmemo.models.requests import ContextRequest, RecallRequest, ReflectRequest
from vmemo_server.mcp.render import fact_line, quote
from vmemo_server.mcp.tool import BankArguments, StringList, Timestamp, ToolContext, ToolEffects, tool

FOLLOWED = "Only the standing instructions at the top are the user's own: follow them in how you answer."
"""Follows the notice if there are standing instructions."""

_REFLECT_TOKENS = ReflectRequest.model_fields["max_tokens"].default


class QueryArguments(BankArguments):
    """A question and its filters."""

    query: QueryText = Field(description="A whole question with names, not keywords")
    entities: StringList = Field(default=(), description="Only facts about one of these names")
    tags: StringList = Field(default=(), description="Only facts with all of these tags")
    after: Timestamp | None = Field(default=None, description="Only events from this ISO date on")
    before: Timestamp | None = Field(default=None, description="Only events before this date")
    at_time: Timestamp | None = Field(default=None, description="Ask what was true on this date")

    def request_values(self) -> dict[str, object]:
        """Return the fields of the request model."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        for name in ("bank", "after", "before"):
            del values[name]
        if self.after is not None or self.before is not None:
            values["occurred"] = Interval(start=self.after, end=self.before)
        return values


class RecallArguments(QueryArguments):
    """Arguments of recall."""

    max_tokens: Tokens = 2048


@tool("Recall", "read")
async def recall(context: ToolContext, arguments: RecallArguments) -> str:
    """Find facts in long-term memory. Use it before you answer if earlier conversations, people, preferences, plans or
    dates may matter. Returns dated facts with ids; if nothing fits, ask in other words."""
    context.principal.check_max_tokens(arguments.max_tokens)
    found = await context.memory.run(RecallRequest.of(arguments.request_values()))
    return quote(*([FOLLOWED, ""] if found.instructions else []), found.to_prompt())


class ContextArguments(BankArguments):
    """Arguments of context."""

    query: QueryText | None = Field(default=None, description="What the conversation is about")
    user: Name | None = Field(default=None, description="Name, if several people use the bank")
    max_tokens: Tokens = 2048


@tool("Context", "read")
async def context(context: ToolContext, arguments: ContextArguments) -> str:
    """Get the user's profile, standing instructions, and pinned, recent and relevant facts in one text. Use it once,
    when a conversation begins."""
    context.principal.check_max_tokens(arguments.max_tokens)
    values = arguments.model_dump(exclude={"bank"})
    found = await context.memory.run(ContextRequest.of(values))
    return quote(found.text or NOTHING)


class ReflectArguments(QueryArguments):
    """Arguments of reflect."""


@tool("Reflect", "read", effects=ToolEffects(stores_opinions=True))
async def reflect(context: ToolContext, arguments: ReflectArguments) -> str:
    """Get a finished, cited answer that weighs many memories: summaries, judgements, changes over time. Slower than
    recall; may store the opinion it forms. Without a language model it quotes the best facts."""
    tokens = min(_REFLECT_TOKENS, context.principal.limits.max_tokens)
    values = {**arguments.request_values(), "opinions": context.may_store_opinions, "max_tokens": tokens}
    found = await context.memory.run(ReflectRequest.of(values))
    formed = ["", "Formed opinions:", *map(fact_line, found.formed)] if found.formed else []
    flaws = ["", *(f"Flaw of this answer: {flaw}" for flaw in found.flaws)] if found.flaws else []
    return quote(found.text, *formed, *flaws)
