"""Profiles and banks."""

from __future__ import annotations

from shlex import quote

from pydantic import Field

from vmemo.models.base import Background, Instant, Name, Record, Share, utc_now


class Disposition(Record):
    """Three traits from 1 (low) to 5 (high)."""

    skepticism: int = Field(default=3, ge=1, le=5)
    literalism: int = Field(default=3, ge=1, le=5)
    empathy: int = Field(default=3, ge=1, le=5)


class Profile(Record):
    """The name, disposition and background of a bank's agent."""

    name: Name = "assistant"
    disposition: Disposition = Field(default_factory=Disposition)
    bias: Share = 0.5
    background: Background = ""


class FormerProfile(Record):
    """A replaced profile; `reason` is the text that caused the change."""

    profile: Profile
    until: Instant
    reason: str = ""


class Bank(Record):
    """An isolated container of memories."""

    id: Name
    profile: Profile = Field(default_factory=Profile)
    embedder: Name
    dimension: int = Field(ge=1)
    created_at: Instant = Field(default_factory=utc_now)


SMALL_EMBEDDER = "vmemo-encoder-1-small"
"""The name of the packaged embedder that `embedder="small"` selects."""


def reembed_command(bank: str, embedder: str) -> str:
    """Return the command that switches a bank to an embedder."""
    host, _, model = embedder.rpartition("#")
    named = f" --embedder {f'URL#{model}' if host else embedder}" if ":" in embedder else ""
    if embedder == SMALL_EMBEDDER:
        named = " --embedder small"
    return f"vmemo reembed --bank {quote(bank)}{named}"
