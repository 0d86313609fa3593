"""Webhooks of a bank, and the rules for their addresses."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Annotated, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from vmemo.models.records import Instant, Record, utc_now

WebhookEvent = Literal["retained", "revised", "forgotten"]
"""retained: facts were stored, or are current again; revised: facts were closed; forgotten: facts were deleted."""
IpAddress: TypeAlias = IPv4Address | IPv6Address
MAX_WEBHOOKS = 20
"""Webhooks of one bank."""
_PORTS = {"http": 80, "https": 443}
_MAX_HOST = 253
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_GLOBAL_UNICAST = ip_network("2000::/3")
"""The public IPv6 addresses; NAT64, IPv4-compatible, IPv4-translated and site-local addresses lie outside."""
_SPECIAL = tuple(
    ip_network(block)
    for block in (
        "192.0.0.0/24",  # protocol assignments, also the metadata service of a cloud
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # protocol assignments, Teredo
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
"""Ranges with special routes, all or some of which `ipaddress` of some Python versions calls global."""


def split_webhook_url(url: str) -> SplitResult:
    """Return the parts of a webhook's URL; raise ValueError unless it is https, or http to a loopback address."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("contains characters that are not allowed in a URL; percent-encode them")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("has an invalid host or port") from None
    if parts.scheme not in _PORTS or not host or port == 0:
        raise ValueError("must be an https:// URL with a host")
    labels = host.removesuffix(".").split(".")
    if literal_address(host) is None and not (len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, labels))):
        raise ValueError(
            f"has an invalid host: a name has at most {_MAX_HOST} characters, each part 1 to 63 of a-z0-9_-"
        )
    if parts.username is not None or parts.fragment:
        raise ValueError("must contain no user name, password or fragment; receivers verify the signature")
    if parts.scheme == "http" and not _names_loopback(host):
        raise ValueError("must start with https://; http:// is for localhost and loopback addresses")
    return parts


def port_of(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def literal_address(host: str) -> IpAddress | None:
    """Return the address that a host is written as; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_private(address: IpAddress) -> bool:
    """Return True unless the address is one of the public internet. Ranges that embed IPv4 addresses are private."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_private(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST:
            return True
    return not address.is_global or address.is_multicast or any(address in block for block in _SPECIAL)


def names_private_host(host: str) -> bool:
    """Return True if a host is private by its name alone; other names are checked when they are resolved."""
    address = literal_address(host)
    return _names_loopback(host) if address is None else is_private(address)


def _names_loopback(host: str) -> bool:
    address = literal_address(host)
    return host == "localhost" if address is None else address.is_loopback


def _checked_url(url: str) -> str:
    split_webhook_url(url)
    return url


WebhookUrl = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_checked_url)]


class Webhook(Record):
    """An address that is notified of changes to the facts of a bank."""

    id: str
    url: str
    events: tuple[WebhookEvent, ...]
    created_at: Instant = Field(default_factory=utc_now)
    disabled_at: Instant | None = Field(default=None, description="the time at which the receiver answered 410 Gone")


class SignedWebhook(Webhook):
    """A webhook with the secret that signs its deliveries."""

    secret: str = Field(repr=False, description="the signing secret, whsec_ and base64; it is shown only once")

    def public(self) -> Webhook:
        return self.as_a(Webhook)
