"""Pages that this distribution adds to the console of a server: replays and cases of a bank."""

from fastapi import APIRouter

from vmemo_replay.console import case_pages, replays
from vmemo_replay.console.case_store import forget_with
from vmemo_server.console.extension import ConsoleExtension
from vmemo_server.dependencies import AppState

router = APIRouter(include_in_schema=False)
for pages in (replays, case_pages):
    router.routes.extend(pages.router.routes)


def start(state: AppState) -> None:
    """Delete what cases quote when text of their bank is deleted."""
    state.auth.on_erased.append(forget_with(state.auth, state.memory.store))


extension = ConsoleExtension(
    package="vmemo_replay.console",
    router=router,
    links=(("replay", "Replay"), ("cases", "Cases")),
    start=start,
)

__all__ = ["extension"]
