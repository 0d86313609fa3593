"""The result of a recall, its explanation, and its form in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from vmemo.errors import InvalidInput
from vmemo.models import Channel, ChannelCandidate, EpisodeId, Fact, Hit, Interval, Mention, QueryType, QuestionTense
from vmemo.models.base import Instant, Record
from vmemo.models.display import counted, shortened, with_lines
from vmemo.models.hits import hits_table
from vmemo.models.recall_prompt import INSTRUCTION_SHARE, RecallPrompt, fit_instructions


class Explanation(Record):
    """The analysis of the question, the candidates of each channel, and the work of the reranker."""

    type: QueryType
    tense: QuestionTense = "present"
    """A question about the past also finds facts that are not true any more."""
    profile: bool = False
    """A question for a profile or a summary, in whose budget observations have a share."""
    during: Interval | None
    resolved_by: Literal["rules", "model"] | None = None
    """The source of that time."""
    unresolved_time: str | None = None
    """Words for a time that the rules could not resolve, for which the model was called."""
    problem: str | None = None
    """The reason why the model returned no time."""
    parts: tuple[str, ...]
    links: tuple[str, ...] = ()
    """Queries for traits of the persons in a request for advice, which reflect looks up beside the question."""
    entities: tuple[Mention, ...]
    weights: Mapping[Channel, float]
    candidates: Mapping[Channel, int]
    rankings: Mapping[Channel, tuple[ChannelCandidate, ...]] = Field(
        default_factory=dict[Channel, tuple[ChannelCandidate, ...]],
        description="the first 20 candidates of each channel, also those that were not returned",
    )
    reranker: str
    reranked: int


class Recalled(Record):
    """Hits by relevance inside the budget; `timings` are milliseconds by stage.

    `tokens` are those of the hits' texts, at most `max_tokens`. The last hit may be truncated.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    instructions: tuple[Fact, ...] = Field(
        default=(), description="the user's standing instructions, newest first, whatever the question is about"
    )
    tokens: int = 0
    max_tokens: int | None = None
    at_time: Instant | None = None
    known_at: Instant | None = None
    titles: Mapping[EpisodeId, str] = Field(default_factory=dict[EpisodeId, str])
    timings: Mapping[str, float] = Field(default_factory=dict[str, float])
    explanation: Explanation | None = None
    _counter: Callable[[str], int] | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        # The counter is no part of the result: one that was written as JSON and read again is equal.
        return isinstance(other, Recalled) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return with_lines(f"Recalled {self._summary}", [hit.line for hit in self.hits])

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return hits_table(f"Recalled {self._summary}", self.hits)

    @property
    def _summary(self) -> str:
        instructions = f", {counted(len(self.instructions), 'instruction')}" if self.instructions else ""
        size = f"{counted(len(self.hits), 'fact')}, {counted(self.tokens, 'token')}{instructions}"
        return f"{size} for {shortened(self.query)!r}"

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The recalled facts."""
        return tuple(hit.fact for hit in self.hits)

    def to_prompt(self, max_tokens: int | None = None) -> str:
        """Return the facts for a prompt: by day and episode in order of time, with short ids to cite.

        The user's standing instructions come first. The prompt has at most `max_tokens` in all, by default those of the
        recall; `retrieve` sets no limit. The most relevant facts take precedence, and one that does not fit is cut at a
        sentence and marked " […]".
        """
        limit = self.max_tokens if max_tokens is None else max_tokens
        shown = self.instructions
        if limit is not None:
            shown = fit_instructions(shown, limit // INSTRUCTION_SHARE)
        prompt = RecallPrompt(titles=self.titles, known_at=self.known_at, instructions=shown)
        repeated = {fact.id for fact in shown}
        hits = [hit for hit in self.hits if hit.id not in repeated]
        if limit is None:
            return prompt.render(hits)
        if limit < 1:
            raise InvalidInput(f"max_tokens is {limit} and must be at least 1.")
        if self._counter is None:
            raise InvalidInput(
                "This result was not made by a Memory or a client, so it has no token counter; use "
                "`result.counted_by(vmemo.providers.count_tokens)`."
            )
        return prompt.fit(hits, limit, self._counter)

    def counted_by(self, counter: Callable[[str], int]) -> Self:
        """Return this result with the counter of tokens that `to_prompt` uses."""
        counted = self.model_copy()
        counted._counter = counter
        return counted
