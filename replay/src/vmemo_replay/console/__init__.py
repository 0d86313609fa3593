"""Pages that this distribution adds to the console of a server: replays, cases, live requests, and usage."""

from fastapi import APIRouter

from vmemo_replay.console import case_pages, live, replays, usage
from vmemo_replay.console.case_store import forget_with
from vmemo_server.console.extension import ConsoleExtension
from vmemo_server.dependencies import AppState

router = APIRouter(include_in_schema=False)
for pages in (replays, case_pages, live, usage):
    router.routes.extend(pages.router.routes)


def start(state: AppState) -> None:
    """Watch and count the requests of a server, and delete what cases quote when text of their bank is deleted."""
    state.auth.on_erased.append(forget_with(state.auth, state.memory.store))
    live.remember(state)
    usage.count(state)


extension = ConsoleExtension(
    package="vmemo_replay.console",
    router=router,
    links=(("replay", "Replay"), ("cases", "Cases"), ("live", "Live")),
    server_links=(("usage", "Usage"),),
    start=start,
)

__all__ = ["extension"]
