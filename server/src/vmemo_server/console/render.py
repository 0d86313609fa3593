"""Templates of the console: escaping, texts of memory, times and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from vmemo.models import Fact, Interval, utc_now
from vmemo.models.records import counted
from vmemo.models.results import Forgotten
from vmemo.text.temporal.format import format_interval
from vmemo_server.auth import Principal
from vmemo_server.console.extension import extensions, packages
from vmemo_server.console.session import csrf_token

BASE = "/console"
SHORT = 280
"""Characters of a memory's text in a list."""
LONG = 1500
"""Characters of a text beyond which a page shows the rest on request."""


def path_to(*parts: str) -> str:
    """Return the path of a page; the parts may hold any character."""
    return "/".join((BASE, *(quote(part, safe="") for part in parts)))


def bank_path(bank: str, *parts: str) -> str:
    return path_to("banks", bank, *parts)


def short(text: str, limit: int = SHORT) -> str:
    """Return the beginning of a text, with an ellipsis if it is longer."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def search_words(text: str) -> list[str]:
    """Return the words of a search, without the character that no text of a memory has."""
    return text.replace("\x00", " ").split()


def marked(text: str, words: Sequence[str], limit: int = SHORT) -> Markup:
    """Return the part of a text with the first word that is found in it, in which all words are marked."""
    if not words:
        return escape(short(text, limit))
    found = re.compile(f"({'|'.join(map(re.escape, words))})", re.IGNORECASE)
    first = found.search(text)
    if first is not None and first.end() > limit:
        start = max(0, first.start() - limit // 2)
        text = f"…{text[text.find(' ', start, first.start()) + 1 or start :]}"
    parts = found.split(short(text, limit))
    return Markup("").join(Markup("<mark>{}</mark>").format(part) if n % 2 else part for n, part in enumerate(parts))


def when(time: datetime | None, *, clock: bool = False) -> Markup:
    """Return a time element in UTC: the day, and with `clock` the time of day."""
    if time is None:
        return Markup('<span class="none">–</span>')
    utc = time.astimezone(UTC)
    shown = f"{utc.day} {utc:%b %Y}" + (f" {utc:%H:%M}" if clock else "")
    full = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(utc.isoformat(), full, shown)


def happened(fact: Fact) -> Markup:
    """Return the time at which a fact happened, such as a day or a month."""
    if fact.occurred_start is None and fact.occurred_end is None:
        return Markup('<span class="none">–</span>')
    return Markup('<span class="when">{}</span>').format(
        format_interval(Interval(start=fact.occurred_start, end=fact.occurred_end))
    )


def is_over(fact: Fact) -> bool:
    """Return True if a fact is not believed or not true any more."""
    return fact.expired_at is not None or (fact.invalid_at is not None and fact.invalid_at <= utc_now())


@cache
def environment() -> Environment:
    """Return the environment of all templates; every value is escaped."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages()]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Both are declared with the types of Jinja's own values.
    filters, values = cast("dict[str, Any]", made.filters), cast("dict[str, Any]", made.globals)
    filters.update(short=short, marked=marked, when=when, happened=happened, plural=counted)
    values["extra_links"] = [link for each in extensions() for link in each.links]
    values["extra_server_links"] = [link for each in extensions() for link in each.server_links]
    values.update(is_over=is_over, path_to=path_to, bank_path=bank_path, LONG=LONG, version=version("vmemo"))
    return made


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    principal: Principal | None = getattr(request.state, "principal", None)
    common = {
        "request_path": request.url.path,
        "csrf": csrf_token(request),
        "principal": principal,
        "is_admin": principal is not None and principal.allows("admin"),
        "flash": flash_of(request),
    }
    return HTMLResponse(environment().get_template(template).render({**common, **values}), status)


def is_fragment(request: Request) -> bool:
    """Return True if htmx replaces a part of the page with the response."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


_MESSAGES: Mapping[str, str] = {
    "created": "The bank exists now.",
    "saved": "Saved.",
    "edited": "Saved as a new version; the old one is closed.",
    "pinned": "Pinned: maintenance never closes this fact.",
    "unpinned": "Unpinned.",
    "judged": "The feedback is saved.",
    "merged": "Merged. The merge can be undone below.",
    "undone": "The merge is undone; the two are not merged again.",
    "processed": "All pending messages were processed.",
    "maintained": "Maintenance has run.",
    "revoked": "The key is revoked.",
    "background": "The background was updated.",
}
_NOUNS = {"messages": "message", "facts": "fact", "episodes": "episode", "entities": "entity"}


def flash_of(request: Request) -> str | None:
    """Return the message that the address of a page names."""
    done = request.query_params.get("done", "")
    if done != "forgotten":
        return _MESSAGES.get(done)
    counts = {name: request.query_params.get(name, "") for name in _NOUNS}
    found = Forgotten.of({name: int(value) for name, value in counts.items() if value.isdecimal() and len(value) < 10})
    return f"Deleted for good: {listed_counts(found)}."


def redirect(path: str, done: str, counts: Forgotten | None = None) -> Response:
    """Return a redirect to a page that shows a message."""
    numbers = {} if counts is None else {name: getattr(counts, name) for name in _NOUNS}
    return RedirectResponse(f"{path}?{urlencode({'done': done, **{n: v for n, v in numbers.items() if v}})}", 303)


def listed_counts(forgotten: Forgotten) -> str:
    """Return the numbers of deleted records in words."""
    found = [(getattr(forgotten, plural), noun, plural) for plural, noun in _NOUNS.items()]
    return ", ".join(counted(*each) for each in found if each[0]) or "nothing"
