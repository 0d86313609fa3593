"""The user of an agent: the messages whose author speaks to the agent, and not to another person."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import Message, MessageId


def agent_users(messages: Sequence[Message]) -> set[MessageId]:
    """Return the messages of a conversation that a user says to the agent.

    A conversation between people has several speakers of the role `user` and no message of the role `assistant`.
    """
    said = [message for message in messages if message.role == "user"]
    with_agent = any(message.role == "assistant" for message in messages)
    alone = len({message.speaker for message in said}) <= 1
    return {message.id for message in said} if with_agent or alone else set()
