"""Protocol of a store that keeps webhooks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from vmemo.models import BankId
from vmemo.models.webhooks import SignedWebhook


@runtime_checkable
class WebhookStore(Protocol):
    """A store whose commits queue a delivery for each webhook that wants their events.

    Webhooks are written by `Changes`, belong to one bank, are deleted with it, stay with it when a bank derived from
    it takes its place, and are never exported.
    """

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]:
        """Return the webhooks of a bank, oldest first."""
        ...
