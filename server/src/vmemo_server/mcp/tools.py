"""All tools: query a bank, retain and forget messages, inspect and edit memories, and manage banks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, Self

from pydantic import Field, model_validator

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import EntityId, Fact, FactId, Interval, MessageId, Profile, Role, requests as r
from vmemo.models.recalled import NOTHING
from vmemo.models.records import Background, Content, Instant, Name, Share, counted
from vmemo.models.results import Retained
from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.mcp.render import (
    deleted_lines,
    entity_line,
    fact_line,
    message_line,
    profile_line,
    quote,
    status_lines,
    version_line,
)
from vmemo_server.mcp.tool import (
    BankArguments,
    StringList,
    Timestamp,
    Tool,
    ToolArguments,
    ToolContext,
    ToolEffects,
    description_of,
    tool,
)

FOLLOWED = "Only the standing instructions at the top are the user's own: follow them in how you answer."
"""Follows the notice if there are standing instructions."""

_REFLECT_TOKENS = r.ReflectRequest.model_fields["max_tokens"].default


class SeveralBanksArguments(BankArguments):
    """Arguments of a tool that searches a bank, or several."""

    banks: StringList = Field(default=(), description="Several banks at once")

    @property
    def first_bank(self) -> str:
        return next(iter(self.banks), self.bank)


class QueryArguments(BankArguments):
    """A question and its filters."""

    query: r.QueryText = Field(description="A whole question with names, not keywords")
    entities: StringList = Field(default=(), description="Only facts about one of these names")
    speakers: StringList = Field(default=(), description="Only facts that one of these people said")
    tags: StringList = Field(default=(), description="Only facts with all of these tags")
    after: Timestamp | None = Field(default=None, description="Only events from this ISO date on")
    before: Timestamp | None = Field(default=None, description="Only events before this date")
    at_time: Timestamp | None = Field(default=None, description="Ask what was true on this date")
    precise: bool = Field(default=False, description="Fewest facts that suffice")
    min_answerable: Share = Field(default=0.0, description="Least probability of an answer")

    def request_values(self) -> dict[str, object]:
        """Return the fields of the request model."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        for name in ("bank", "after", "before"):
            del values[name]
        if self.after is not None or self.before is not None:
            values["occurred"] = Interval(start=self.after, end=self.before)
        return values


class RecallArguments(SeveralBanksArguments, QueryArguments):
    max_tokens: r.Tokens = 2048


@tool("Recall", "read")
async def recall(context: ToolContext, arguments: RecallArguments) -> str:
    """Find facts in long-term memory. Use it before you answer if earlier conversations, people, preferences, plans or
    dates may matter. Returns dated facts with ids; if nothing fits, ask in other words."""
    context.principal.check_max_tokens(arguments.max_tokens)
    request = r.RecallRequest.of(arguments.request_values())
    context.principal.check_banks(request)
    found = await context.memory.run(request)
    return quote(*([FOLLOWED, ""] if found.instructions else []), found.to_prompt())


class ContextArguments(SeveralBanksArguments):
    query: r.QueryText | None = Field(default=None, description="What the conversation is about")
    user: Name | None = Field(default=None, description="Name, if several people use the bank")
    max_tokens: r.Tokens = 2048


@tool("Context", "read")
async def context(context: ToolContext, arguments: ContextArguments) -> str:
    """Get the user's profile, standing instructions, constraints, and pinned, recent and relevant facts in one text.
    Use it once, when a conversation begins."""
    context.principal.check_max_tokens(arguments.max_tokens)
    request = r.ContextRequest.of(arguments.model_dump(exclude={"bank"}))
    context.principal.check_banks(request)
    found = await context.memory.without_creation().run(request)
    return quote(found.text or NOTHING)


@tool("Reflect", "read", effects=ToolEffects(stores_opinions=True))
async def reflect(context: ToolContext, arguments: QueryArguments) -> str:
    """Get a finished, cited answer that weighs many memories: summaries, judgements, changes over time. Slower than
    recall; may store the opinion it forms. Without a language model it quotes the best facts."""
    tokens = min(_REFLECT_TOKENS, context.principal.limits.max_tokens)
    values = {**arguments.request_values(), "opinions": context.may_store_opinions, "max_tokens": tokens}
    found = await context.memory.run(r.ReflectRequest.of(values))
    formed = ["", "Formed opinions:", *map(fact_line, found.formed)] if found.formed else []
    flaws = ["", *(f"Flaw of this answer: {flaw}" for flaw in found.flaws)] if found.flaws else []
    return quote(found.text, *formed, *flaws)


class MessageArguments(ToolArguments):
    """A message to retain."""

    content: str = Field(min_length=1)
    role: Role | None = None
    speaker: Name | None = None
    timestamp: Timestamp | None = None


class RetainArguments(BankArguments):
    content: str = Field(default="", description="Self-contained sentences with names and dates")
    messages: tuple[MessageArguments, ...] = Field(default=(), description="Instead of content: a conversation")
    speaker: Name | None = None
    timestamp: Timestamp | None = Field(default=None, description="When it was said, ISO; default now")
    document: Name | None = Field(default=None, description="Source name; repeating a document stores nothing twice")
    tags: StringList = ()
    expires_at: Timestamp | None = Field(default=None, description="When to forget it, ISO")

    @model_validator(mode="after")
    def _content_or_messages(self) -> Self:
        if bool(self.content.strip()) == bool(self.messages):
            raise ValueError("give either content or messages")
        return self

    def request(self) -> r.RetainRequest:
        """Return the request."""
        messages = self.messages or (MessageArguments(content=self.content, speaker=self.speaker),)
        shared = {"document": self.document, "tags": self.tags, "expires_at": self.expires_at}
        values = [
            {**message.model_dump(), "timestamp": message.timestamp or self.timestamp, **shared} for message in messages
        ]
        return r.RetainRequest.of({"messages": values})


@tool("Retain", "write", create=True)
async def retain(context: ToolContext, arguments: RetainArguments) -> str:
    """Store in long-term memory what will matter later: people, preferences, decisions, plans, corrections, results,
    and whatever the user asks you to remember. A correction replaces the old fact. No secrets, no small talk. Creates
    the bank."""
    context.principal.check_batch(len(arguments.messages))
    return _retained(await context.memory.run(arguments.request()))


def _retained(retained: Retained) -> str:
    if not retained.stored and not retained.derived:
        lines = ["Nothing new: everything was stored before."]
    else:
        stored, derived = counted(len(retained.stored), "message"), counted(len(retained.derived), "fact")
        revised = f", replaced or confirmed {len(retained.revised)} earlier" if retained.revised else ""
        lines = [f"Stored {stored}, derived {derived}{revised}."]
    if retained.problem is not None:
        lines.append(f"{retained.problem.error}: {retained.problem.detail}")
    elif retained.pending:
        lines.append(f"Facts are still to be derived from {counted(retained.pending, 'message')}.")
    lines += [f"Skipped {each.what}: {each.reason}" for each in retained.skipped]
    return "\n".join(lines)


class ForgetArguments(BankArguments):
    fact: Name | None = Field(default=None, description="Id of one fact")
    messages: StringList = Field(default=(), description="Message ids from why or browse")
    document: Name | None = Field(default=None, description="Name of a source")
    entity: Name | None = Field(default=None, description="A person or thing: every message that mentions it")


@tool("Forget", "write", effects=ToolEffects(destructive=True, idempotent=True))
async def forget(context: ToolContext, arguments: ForgetArguments) -> str:
    """Delete a fact, messages, a document or a person or thing, with all that rests on it, for good. Give one of them.
    Only if the user asks and confirms. To correct a fact, use edit_memory."""
    given = arguments.model_dump(exclude={"bank", "fact"})
    if arguments.fact is not None and any(given.values()):
        raise InvalidInput("Name exactly one thing to forget: a fact, messages, a document or an entity.")
    async with context.erasing():
        if arguments.fact is None:
            deleted = await context.memory.run(r.ForgetContentRequest.of(given))
        else:
            deleted = await context.memory.delete(arguments.fact)
    return "\n".join(deleted_lines("for good", deleted))


RecordKind = Literal["messages", "facts", "pinned", "instructions", "feedback", "opinions", "observations", "entities"]


class WhyArguments(BankArguments):
    fact: Name = Field(description="Id, as recall shows it")


@tool("Trace a fact", "read")
async def why(context: ToolContext, arguments: WhyArguments) -> str:
    """Show where a fact comes from: its messages with their ids, the facts behind it, and its other versions."""
    found = await context.memory.why(arguments.fact)
    versions = await context.memory.history(found.fact.id)
    messages = {message.id: message for each in (found, *found.basis) for message in each.messages}
    changes = [
        f"- {each.stance}: confidence {each.before:.2f} to {each.after:.2f}: {each.reason}"
        for each in found.confidence_changes
    ]
    sections = {
        "Messages:": [message_line(message) for message in messages.values()],
        "Based on:": [fact_line(each.fact) for each in found.basis],
        "Confidence changes:": changes,
        "Versions, oldest first:": [version_line(fact) for fact in versions if len(versions) > 1],
    }
    shown = [line for heading, lines in sections.items() if lines for line in (heading, *lines)]
    return quote(fact_line(found.fact), *shown)


class EditArguments(BankArguments):
    fact: Name = Field(description="Id, as recall shows it")
    text: Content | None = Field(default=None, description="The corrected fact")
    reason: str = Field(default="", max_length=1000)
    valid_at: Instant | None = Field(default=None, description="Since when it is true; default: now")
    pinned: bool | None = Field(default=None, description="True pins, false unpins")
    question: str = Field(default="", description="Judge it as a hit of this")
    useful: bool | None = False

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.text is None and self.pinned is None and not self.question:
            raise ValueError("give text, pinned or question")
        if self.text is None and self.valid_at is not None:
            raise ValueError("give the text that is true since valid_at")
        return self


@tool("Edit a fact", "write")
async def edit_memory(context: ToolContext, arguments: EditArguments) -> str:
    """Correct, pin or judge one fact, if the user names what is wrong with a recalled one; new information belongs into
    retain."""
    id = arguments.fact
    if arguments.text is not None:
        id = (await context.memory.update(id, arguments.text, arguments.reason, valid_at=arguments.valid_at)).id
    if arguments.pinned is not None:
        id = (await context.memory.pin(id, arguments.pinned)).id
    if arguments.question:
        id = (await context.memory.feedback(id, arguments.question, arguments.useful, arguments.reason)).id
    return quote(fact_line(await context.memory.get(id)))


class BrowseArguments(BankArguments):
    kind: RecordKind
    document: Name | None = Field(default=None, description="Only its messages")
    entity: Name | None = Field(default=None, description="Only its observations")
    cursor: Name | None = None
    limit: int = Field(default=20, ge=1, lt=r.LARGEST_PAGE)


@tool("Browse", "read")
async def browse(context: ToolContext, arguments: BrowseArguments) -> str:
    """List what a bank holds, in stored order and by pages, to review it or to find ids. To answer a question, use
    recall."""
    lines, cursor = await _page(context, arguments)
    following = [f"More: pass cursor {cursor!r}."] if cursor is not None else []
    return quote(*(lines or ["There are none."]), *following)


async def _page(context: ToolContext, arguments: BrowseArguments) -> tuple[list[str], str | None]:
    """Return the lines of a page and the cursor of the next one."""
    memory, limit, cursor = context.memory, arguments.limit, arguments.cursor
    match arguments.kind:
        case "messages":
            after = None if cursor is None else MessageId(cursor)
            messages = await memory.messages(document=arguments.document, after=after, limit=limit + 1)
            return [message_line(each) for each in messages[:limit]], _next(messages, limit)
        case "entities":
            entities = await memory.entities(after=None if cursor is None else EntityId(cursor), limit=limit + 1)
            return [entity_line(each) for each in entities[:limit]], _next(entities, limit)
        case "facts" | "pinned" | "instructions" | "feedback":
            after = None if cursor is None else FactId(cursor)
            only = {} if arguments.kind == "facts" else {arguments.kind: True}
            facts = await memory.facts(after=after, limit=limit + 1, **only)
        case "opinions":
            facts = _after(await memory.opinions(), cursor)
        case "observations":
            facts = _after(await memory.observations(arguments.entity), cursor)
    return [fact_line(fact) for fact in facts[:limit]], _next(facts, limit)


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


def _next(found: Sequence[_HasId], limit: int) -> str | None:
    """Return the cursor of the next page if more records were found than a page holds."""
    return found[limit - 1].id if len(found) > limit else None


def _after(facts: list[Fact], cursor: str | None) -> list[Fact]:
    """Return the facts after the one that a cursor names."""
    if cursor is None:
        return facts
    places = [place for place, fact in enumerate(facts) if fact.id == cursor]
    if not places:
        raise NotFound(f"The page {cursor!r:.80} no longer exists. Start again without a cursor.")
    return facts[places[0] + 1 :]


_TRAIT = "1 to 5"


class BankOnlyArguments(BankArguments):
    """Arguments of tools that need nothing but the bank."""


class ListBanksArguments(ToolArguments):
    prefix: str = Field(default="", max_length=512)
    limit: int = Field(default=100, ge=1, le=1000)


async def _list_banks(caller: ToolCaller, arguments: ListBanksArguments) -> str:
    """List the memory banks of this connection, isolated from one another. Without a bank, tools use the default."""
    names = [name for name in await caller.banks() if name.startswith(arguments.prefix)]
    shown = {"banks": names[: arguments.limit], "default": caller.principal.default_bank}
    return json.dumps({**shown, "more": True} if len(names) > arguments.limit else shown, ensure_ascii=False)


list_banks = Tool(
    name="list_banks",
    title="List banks",
    description=description_of(_list_banks),
    permission="read",
    effects=ToolEffects(),
    arguments=ListBanksArguments,
    run=_list_banks,
    names_bank=True,
)


@tool("Status", "read")
async def status(context: ToolContext, arguments: BankOnlyArguments) -> str:
    """Show a bank's counts, pending messages and errors, and its profile."""
    memory = context.memory
    return quote(*status_lines(await memory.status()), profile_line(await memory.profile()))


class DeleteBankArguments(BankArguments):
    bank: Name = Field()  # pyright: ignore[reportGeneralTypeIssues] - it is required here


@tool("Delete a bank", "admin", effects=ToolEffects(destructive=True, idempotent=True), names_bank=True)
async def delete_bank(context: ToolContext, arguments: DeleteBankArguments) -> str:
    """Delete a whole bank for good. Only if the user names it and confirms."""
    async with context.erasing():
        deleted = await context.memory.forget(bank=True)
    return "\n".join(deleted_lines(f"bank {context.bank!r}", deleted))


class SetProfileArguments(BankArguments):
    """Arguments of set_profile; omitted fields stay as they are."""

    name: Name | None = None
    skepticism: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    literalism: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    empathy: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    bias: Share | None = Field(default=None, description="Weight of the profile in answers, 0 to 1")
    background: Background | None = Field(default=None, description="Replaces the text, first person")
    add_background: str | None = Field(default=None, min_length=1, max_length=10_000, description="Merged into it")

    @model_validator(mode="after")
    def _one_background(self) -> SetProfileArguments:
        if self.background is not None and self.add_background is not None:
            raise ValueError("give either background, which replaces, or add_background, which merges")
        return self

    def applied(self, to: Profile) -> Profile:
        """Return the profile with these changes."""
        return to.changed(self.model_dump(exclude_none=True, exclude={"bank", "add_background"}))


@tool("Change a profile", "write", effects=ToolEffects(idempotent=True))
async def set_profile(context: ToolContext, arguments: SetProfileArguments) -> str:
    """Change who you are in reflect: name, traits, background. Omitted fields stay. For facts, use retain."""
    before = await context.memory.profile()
    # Invalid values must not leave a half-made change.
    arguments.applied(before)
    if arguments.add_background is not None:
        before = await context.memory.add_background(arguments.add_background)
    after = arguments.applied(before)
    if after != before:
        after = await context.memory.profile(after)
    return quote(profile_line(after))


_ALL = (
    *(recall, retain, context, reflect, why, edit_memory, browse, forget),
    *(status, set_profile, list_banks, delete_bank),
)
# Each tool validates its own type of arguments before it runs.
TOOLS: Mapping[str, Tool[ToolArguments]] = {tool.name: tool for tool in _ALL}  # pyright: ignore[reportAssignmentType]
"""The tools by name, the most used first."""
