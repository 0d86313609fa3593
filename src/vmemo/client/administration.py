"""The client's verbs that keep a bank in order: identities, upkeep, export and import."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import httpx2
from pydantic import BaseModel

from vmemo.client.connection import LINES, Call
from vmemo.client.inspect import Looking
from vmemo.errors import InvalidInput
from vmemo.models import EntityId, Merge, Profile
from vmemo.models.results import Maintained, Retained, Status
from vmemo.recall.query import text_of
from vmemo.sync import twin

_PIECE = 1 << 20


class _Named(BaseModel):
    id: str


class Tending(Looking):
    """Keeping a bank in order."""

    async def merge_entities(self, keep: EntityId | str, absorb: EntityId | str, reason: str = "") -> Merge:
        """Make one entity of two, each given by id or name; all names stay. `undo_merge` parts them again."""
        names = {"keep": text_of("keep", keep), "absorb": text_of("absorb", absorb), "reason": reason}
        return await self._change(Merge, "merges", body=names)

    async def undo_merge(self, merge: str) -> EntityId:
        """Part what a merge joined; the entity that is on its own again is returned, and they are not merged again."""
        return EntityId((await self._change(_Named, "merges", merge, method="DELETE")).id)

    async def add_background(self, snippet: str) -> Profile:
        """Work a new piece of background into the profile's, in the first person; what it contradicts gives way.

        The background before stays in `former_profiles()`. This needs a language model.
        """
        return await self._change(Profile, "profile", "background", body={"snippet": text_of("snippet", snippet)})

    async def maintain(self) -> Maintained:
        """Join episodes that belong together, shorten old ones, close what has faded, and tidy the indexes."""
        return await self._change(Maintained, "maintain")

    async def reprocess(self) -> Retained:
        """Derive everything from the messages again, with the server's engine and embedder.

        The bank answers from what it has until the new derivation takes its place in one step. What fails is raised,
        and calling it again goes on where it stopped. Whatever the messages did not tell, such as opinions, stays.
        """
        return await self._change(Retained, "reprocess")

    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        call = Call(method="GET", path=self._path("export"), accept=LINES)
        try:
            async with self._connection.heard(call) as response:
                count = await _saved(response, partial)
            partial.replace(target)
        except OSError as error:
            raise InvalidInput(f"{target} can't be written: {error.strerror}. Nothing was exported.") from error
        finally:
            with suppress(OSError):
                partial.unlink()
        return count

    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this client's bank name, whole or not at all; its messages are counted."""
        source = Path(path)
        call = Call(method="POST", path=self._path("import"), upload=lambda: _pieces(source), reads=False)
        try:
            return self._read(Status, await self._connection.ask(call)).messages
        except OSError as error:
            raise InvalidInput(f"{source} can't be read: {error.strerror}. Nothing was imported.") from error

    merge_entities_sync = twin(merge_entities)
    undo_merge_sync = twin(undo_merge)
    add_background_sync = twin(add_background)
    maintain_sync = twin(maintain)
    reprocess_sync = twin(reprocess)
    export_sync = twin(export)
    import_bank_sync = twin(import_bank)


async def _saved(response: httpx2.Response, file: Path) -> int:
    """The lines of an answer that were written to a file."""
    count = 0
    with file.open("wb") as to:
        async for piece in response.aiter_bytes():
            count += piece.count(b"\n")
            to.write(piece)
        to.flush()
        os.fsync(to.fileno())
    return count


async def _pieces(file: Path) -> AsyncGenerator[bytes]:
    with file.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
