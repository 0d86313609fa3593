"""Requests that read records of a bank, or change one fact; `vmemo.models.requests` has them all."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vmemo.models.base import Content, Instant, Name, Text
from vmemo.models.entities import Entity, Merge
from vmemo.models.facts import ConfidenceChange, Fact
from vmemo.models.hits import Provenance
from vmemo.models.messages import Episode, Message
from vmemo.models.request_fields import (
    LARGEST_PAGE,
    Count,
    Flag,
    Request,
    Returns,
)
from vmemo.models.results import Forgotten, Job, Status
from vmemo.models.webhooks import SignedWebhook, Webhook, WebhookEvent, WebhookUrl


class WhyRequest(Request, Returns[Provenance]):
    """Return the provenance of a fact."""

    fact: Name = Field(description="The id of a fact, or of a message that was recalled verbatim.")


class FactRequest(Request, Returns[Fact]):
    """Return one fact."""

    fact: Name = Field(description="The id of a fact, or of a message that was recalled verbatim.")


class FactHistoryRequest(Request, Returns[list[Fact]]):
    """Return all versions of a fact, oldest first."""

    fact: Name = Field(description="The id of any version of the fact.")


class FactText(Request):
    """A fact's new text."""

    text: Content = Field(description="The new text.", examples=["Ana lives in Porto."])
    reason: Annotated[Text, Field(max_length=1000)] = Field(default="", description="The reason, which `why` shows.")
    valid_at: Instant | None = Field(
        default=None,
        description="The time since which the new text is true, if that is in the past; now by default.",
        examples=["2024-03-01T00:00:00Z"],
    )


class UpdateFactRequest(FactText, Returns[Fact]):
    """Write a new version of a fact, and return it; the old one is closed and stays in its history."""

    fact: Name = Field(description="The id of a current fact, or of a message that was recalled verbatim.")


class DeleteFactRequest(Request, Returns[Forgotten]):
    """Delete one fact with what rests on it, and the messages that state nothing else."""

    fact: Name = Field(description="The id of a fact, or of a message that was recalled verbatim.")


class PinState(Request):
    """The new state of a pin."""

    pinned: Flag = Field(default=True, description="True to pin the fact, False to unpin it.")


class PinFactRequest(PinState, Returns[Fact]):
    """Pin or unpin a fact, and return it; maintenance never closes a pinned one."""

    fact: Name = Field(description="The id of a fact, or of a message that was recalled verbatim.")


class StatusRequest(Request, Returns[Status]):
    """Return the bank's counts, backlog and problems."""


class BanksRequest(Request, Returns[list[str]]):
    """Return the names of all banks."""


class PageRequest(Request):
    """One page of a list."""

    after: Name | None = Field(default=None, description="The id of the last record of the page before.")
    limit: Annotated[Count, Field(le=LARGEST_PAGE)] = Field(default=100, description="Records per page.")


class MessagesRequest(PageRequest, Returns[list[Message]]):
    """Return a page of messages in the order they were stored."""

    document: Name | None = Field(default=None, description="Only messages of this document.")


class EpisodesRequest(PageRequest, Returns[list[Episode]]):
    """Return a page of episodes in the order they were stored."""


class FactsRequest(PageRequest, Returns[list[Fact]]):
    """Return a page of facts, including closed ones, in the order they were stored."""

    instructions: Flag = Field(default=False, description="Only standing instructions of the user.")
    pinned: Flag = Field(default=False, description="Only pinned facts.")
    with_embeddings: Flag = Field(default=False, description="Include the facts' embeddings.")


class EntitiesRequest(PageRequest, Returns[list[Entity]]):
    """Return a page of entities in the order they were first seen."""


class OpinionsRequest(Request, Returns[list[Fact]]):
    """Return the current opinions."""


class ObservationsRequest(Request, Returns[list[Fact]]):
    """Return the current observations of one entity, or of all."""

    entity: Name | None = Field(default=None, description="An entity's id or name.")


class TrajectoryRequest(Request, Returns[list[ConfidenceChange]]):
    """Return the confidence changes of an opinion."""

    opinion: Name = Field(description="The id of an opinion.")


class MergesRequest(Request, Returns[list[Merge]]):
    """Return the merges of entities."""


class JobsRequest(Request, Returns[list[Job]]):
    """Return the queued jobs."""


class WebhooksRequest(Request, Returns[list[Webhook]]):
    """Return the webhooks, oldest first."""


class AddWebhookRequest(Request, Returns[SignedWebhook]):
    """Add a webhook, and return it with its signing secret, which is shown only once."""

    id: Name | None = Field(
        default=None, description="Its id, by default a new one. If the bank has a webhook with it, that is returned."
    )
    url: WebhookUrl = Field(description="An https:// URL.", examples=["https://app.example/hooks/vmemo"])
    events: tuple[WebhookEvent, ...] = Field(
        default=("retained", "revised", "forgotten"), min_length=1, max_length=3, description="The events to deliver."
    )


class DeleteWebhookRequest(Request, Returns[Webhook]):
    """Delete a webhook with its queued deliveries, and return it."""

    webhook: Name = Field(description="The id of a webhook.")
