"""Delivery of one event to a webhook, signed as the Standard Webhooks specification describes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from urllib.parse import SplitResult

import httpx2

from vmemo.errors import VmemoError
from vmemo.llm.connections import default_certificates
from vmemo.models import FactId, utc_now
from vmemo.models.changes import Changes, Lease
from vmemo.models.results import Job
from vmemo.models.select import FactSelect
from vmemo.models.settings import Settings
from vmemo.models.webhooks import SignedWebhook, is_private, literal_address, port_of, split_webhook_url
from vmemo.ports import Store, WebhookStore

GIVE_UP_AFTER = timedelta(days=3)
"""The age at which an event whose delivery fails is dropped."""
TIMEOUT = 10.0
"""Seconds that one delivery may take."""
GONE = 410
"""The status by which a receiver ends its webhook."""
_lookups = ThreadPoolExecutor(thread_name_prefix="vmemo-webhook-lookup")
"""Threads that resolve names, apart from those of other work, which a slow name server would occupy."""
_log = logging.getLogger("vmemo.jobs")


class WebhookFailed(VmemoError):
    """A delivery that was not accepted; the job is tried again later."""


async def deliver(job: Job, store: Store, settings: Settings, lease: Lease) -> None:
    """Deliver the event of a job and finish the job; raise WebhookFailed if the receiver did not accept it.

    Texts are read now, so that none of a fact leaves that was forgotten since the event. A job is finished without a
    delivery if its webhook is deleted or disabled, if none of its facts is left, or if it failed for too long.
    """
    stored = await store.webhooks(job.bank) if isinstance(store, WebhookStore) else []
    enabled = [each for each in stored if each.id == job.detail["webhook"] and each.disabled_at is None]
    webhook, gone = next(iter(enabled), None), False
    body = None if webhook is None else await _body(job, store)
    if webhook is not None and body is not None:
        try:
            gone = await _send(webhook, job.key, body, settings)
        except Exception as error:
            # Whatever the reason is, also a host that can't be encoded, no delivery is tried forever.
            if utc_now() - job.created_at < GIVE_UP_AFTER:
                raise
            _log.warning("A delivery to webhook %s was dropped after %d attempts: %s", webhook.id, job.attempts, error)
    disabled = {webhook.id: utc_now()} if webhook is not None and gone else {}
    await store.commit(Changes(bank=job.bank, finished=[lease], disabled_webhooks=disabled))


async def _body(job: Job, store: Store) -> bytes | None:
    """Return the payload of an event; None if none of its facts is left."""
    event, listed = job.detail["event"], job.detail["facts"]
    assert isinstance(listed, dict)
    if event == "forgotten":
        facts = [{"id": id} for id in listed]
    else:
        select = FactSelect(ids=[FactId(id) for id in listed])
        stored = {fact.id: fact for fact in await store.facts(job.bank, select)}
        left = [stored[FactId(id)] for id in listed if id in stored]
        facts = [{"id": fact.id, "text": fact.text, "network": fact.network} for fact in left]
        if event == "revised":
            facts = [{**fact, "superseded_by": listed[str(fact["id"])]} for fact in facts]
    payload = {"event": event, "bank": job.bank, "time": job.created_at.isoformat(), "facts": facts}
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode() if facts else None


def signed_headers(webhook: SignedWebhook, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver identifies a delivery and verifies it."""
    key = base64.b64decode(webhook.secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


async def _send(webhook: SignedWebhook, id: str, body: bytes, settings: Settings) -> bool:
    """Send a body; return True if the receiver wants no more. Errors name the host, for a path may hold a token."""
    parts = split_webhook_url(webhook.url)
    headers = {
        **signed_headers(webhook, id, int(utc_now().timestamp()), body),
        "Content-Type": "application/json",
        "Host": parts.netloc,
        "User-Agent": "vmemo",
    }
    try:
        async with asyncio.timeout(TIMEOUT):
            status = await _post(parts, headers, body, private=settings.webhook_private)
    except TimeoutError:
        raise WebhookFailed(f"{parts.netloc} did not answer within {TIMEOUT:g} seconds.") from None
    except (httpx2.HTTPError, OSError) as error:
        raise WebhookFailed(f"{parts.netloc} could not be reached: {type(error).__name__}: {error}") from error
    if status != GONE and not 200 <= status < 300:
        raise WebhookFailed(f"{parts.netloc} answered {status}; a receiver accepts a delivery by a status of 2xx.")
    return status == GONE


async def _post(parts: SplitResult, headers: Mapping[str, str], body: bytes, *, private: bool) -> int:
    """Send a body to the first address of a host that accepts a connection, and return the status.

    The connection is made to the address that was checked, as the name could have another one a moment later.
    Redirects are not followed, and proxies are not used, for the same reason.
    """
    addresses, refused = await _addresses(parts, private=private), None
    verify = default_certificates(trust_env=True)
    async with httpx2.AsyncClient(verify=verify, trust_env=False, follow_redirects=False, timeout=None) as client:
        for address in addresses:
            host = f"[{address}]" if ":" in address else address
            url = parts._replace(netloc=f"{host}:{port_of(parts)}").geturl()
            extensions = {"sni_hostname": parts.hostname}
            try:
                async with client.stream("POST", url, content=body, headers=headers, extensions=extensions) as response:
                    return response.status_code
            except httpx2.ConnectError as error:
                refused = error
    raise refused or WebhookFailed(f"{parts.netloc} has no address.")


async def _addresses(parts: SplitResult, *, private: bool) -> list[str]:
    """Return the addresses of a host; raise WebhookFailed if one of them must not be reached."""
    lookup = partial(socket.getaddrinfo, parts.hostname, port_of(parts), type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_lookups, lookup)
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    for text in addresses:
        address = literal_address(text)
        if address is None or (is_private(address) and not private):
            raise WebhookFailed(
                f"{parts.netloc} has the private address {text}, which webhooks can't reach unless "
                "VMEMO_WEBHOOK_PRIVATE=true allows it."
            )
        if parts.scheme == "http" and not address.is_loopback:
            raise WebhookFailed(f"{parts.netloc} is not a loopback address; use https.")
    return addresses
