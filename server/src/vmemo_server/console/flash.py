"""Messages on the page after an action, named by a code in the address so that nothing else can be shown."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from vmemo.models.results import Forgotten

_MESSAGES: Mapping[str, str] = {
    "created": "The bank exists now.",
    "saved": "Saved.",
    "edited": "Saved as a new version; the old one is closed.",
    "pinned": "Pinned: maintenance never closes this fact.",
    "unpinned": "Unpinned.",
    "merged": "Merged. The merge can be undone below.",
    "undone": "The merge is undone; the two are not merged again.",
    "processed": "All pending messages were processed.",
    "maintained": "Maintenance has run.",
    "revoked": "The key is revoked.",
    "background": "The background was updated.",
}
_COUNTS = ("messages", "facts", "episodes", "entities", "requeued")


def flash_of(request: Request) -> str | None:
    """Return the message that the address of a page names."""
    done = request.query_params.get("done", "")
    if done != "forgotten":
        return _MESSAGES.get(done)
    counts = {name: request.query_params.get(name, "") for name in _COUNTS}
    found = Forgotten.of({name: int(value) for name, value in counts.items() if value.isdecimal() and len(value) < 10})
    return f"Deleted for good: {listed_counts(found)}."


def redirect(path: str, done: str, counts: Forgotten | None = None) -> Response:
    """Return a redirect to a page that shows a message."""
    numbers = {} if counts is None else {name: getattr(counts, name) for name in _COUNTS}
    return RedirectResponse(f"{path}?{urlencode({'done': done, **{n: v for n, v in numbers.items() if v}})}", 303)


def listed_counts(forgotten: Forgotten) -> str:
    """Return the numbers of deleted records in words."""
    nouns = {"messages": "message", "facts": "fact", "episodes": "episode", "entities": "entity"}
    counted = {name: getattr(forgotten, name) for name in nouns}
    parts = [f"{count:,} {name if count != 1 else nouns[name]}" for name, count in counted.items() if count]
    return ", ".join(parts) or "nothing"
