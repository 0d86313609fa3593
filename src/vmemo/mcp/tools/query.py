"""Tools that ask a bank: recall and reflect."""

from __future__ import annotations

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from vmemo.mcp.serializers import FromMemory, Remembered
from vmemo.mcp.tool import Hints, InBank, Moment, Room, Several, tool
from vmemo.models import Interval, Network
from vmemo.recall.query import MAX_QUERY, RecallOptions


class Narrowed(InBank):
    """A question, and what its answer may rest on."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY,
        description="A whole question or statement in plain words, with the names that matter; not bare keywords.",
        examples=["Where does Ana live, and since when?"],
    )
    entities: Several = Field(default=[], description="Only what is about one of these people or things, by name.")
    tags: Several = Field(default=[], description="Only what was retained with all of these tags.")
    after: Moment | None = Field(
        default=None, description="Only what happened at this time or later; ISO 8601, UTC without a zone."
    )
    before: Moment | None = Field(default=None, description="Only what happened before this time; ISO 8601.")
    at_time: Moment | None = Field(
        default=None, description="Ask what was true at this time instead of now; ISO 8601, such as 2024-05-01."
    )

    def options(self) -> RecallOptions:
        """The same as the verbs take it."""
        options = RecallOptions(entities=self.entities, tags=self.tags, at_time=self.at_time)
        if self.after is not None or self.before is not None:
            options["occurred"] = Interval(start=self.after, end=self.before)
        return options


class Recall(Narrowed):
    """What recall takes."""

    max_tokens: int = Field(default=2048, ge=1, description="How many tokens the facts may take together.")
    networks: list[Network] = Field(
        default=[], description="Only of these: world and experience (facts), opinion, observation. All if left out."
    )
    include_expired: bool = Field(default=False, description="Also what is no longer true or believed.")


class Recalled(FromMemory):
    """What memory holds about a question, best first."""

    facts: list[Remembered]
    tokens: int = Field(description="Tokens of all facts together.")
    prompt: SkipJsonSchema[str] = Field(default="", exclude=True)
    """The facts by day with their ids, for those who read text."""

    def as_text(self) -> str:
        """The facts by day."""
        return self.quoted(self.prompt)


@tool("Recall from memory", "read")
async def recall(room: Room, asked: Recall) -> Recalled:
    """Search long-term memory and get the facts that bear on a question, each with an id to cite.

    Use it before you answer whenever the user, an earlier conversation, a person, a preference, a plan or a date may
    matter, and at the start of a task that goes on from an earlier one. Ask again in other words, or with fewer
    filters, if nothing fits. This is fast and costs no model call.

    Do not use it for general knowledge, or for what was said in this conversation already. Use `reflect` instead when
    you want a finished answer that weighs many memories, and `browse` to list what there is without a question.
    """
    options = asked.options()
    options["networks"] = asked.networks
    options["include_expired"] = asked.include_expired
    found = await room.memory.recall(asked.query, room.affordable(asked.max_tokens), **options)
    facts = [Remembered.of(fact) for fact in found.facts]
    return Recalled(facts=facts, tokens=found.tokens, prompt=found.to_prompt())


class Reflect(Narrowed):
    """What reflect takes."""

    max_tokens: int = Field(default=8192, ge=1, description="How many tokens memory may bring for the answer.")
    opinions: bool = Field(
        default=True, description="Whether an opinion that the question calls for is kept; needs the right to write."
    )


class Answered(FromMemory):
    """An answer from memory and what it rests on."""

    answer: str = Field(description="The answer; ids in square brackets name what it rests on.")
    sources: list[Remembered] = Field(description="The facts, observations and opinions that the answer cites.")
    found: bool = Field(description="False where memory holds nothing about the question.")
    quoted_only: bool = Field(description="True where no language model answered and the best facts are only quoted.")
    formed: list[Remembered] = Field(default=[], description="Opinions that were formed and kept.")
    flaws: list[str] = Field(default=[], description="What is wrong with the answer and could not be mended.")

    def as_text(self) -> str:
        """The answer."""
        return self.quoted(self.answer)


@tool("Reflect on memory", "read", hints=Hints(keeps=True))
async def reflect(room: Room, asked: Reflect) -> Answered:
    """Get a finished answer from memory, reasoned in the bank's character and with citations.

    Use it for questions that need many memories weighed together: summaries of a person or a project, judgements
    ("what should we cook for them?"), what changed over time, what you think of something. It may keep the opinion
    that it comes to, so that later answers are consistent.

    Do not use it for a simple look-up: `recall` is faster and cheaper. Without a language model on the server it only
    quotes the best facts and says so.
    """
    found = await room.memory.reflect(
        asked.query,
        **asked.options(),
        max_tokens=room.affordable(asked.max_tokens),
        opinions=asked.opinions and room.writable,
    )
    cited = (*found.facts, *found.observations, *found.opinions)
    return Answered(
        answer=found.text,
        sources=[Remembered.of(fact) for fact in cited],
        found=found.found,
        quoted_only=found.extractive,
        formed=[Remembered.of(fact) for fact in found.formed],
        flaws=list(found.flaws),
    )
