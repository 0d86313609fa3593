"""Pages that this distribution adds to the console of a server: replays and cases of a bank."""

from fastapi import APIRouter

from vmemo_replay.console import replays
from vmemo_server.console.extension import ConsoleExtension

router = APIRouter(include_in_schema=False)
for pages in (replays,):
    router.routes.extend(pages.router.routes)

extension = ConsoleExtension(package="vmemo_replay.console", router=router, links=(("replay", "Replay"),))

__all__ = ["extension"]
