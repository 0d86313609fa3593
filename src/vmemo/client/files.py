"""Export files: saved from a response, and sent as a request."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import suppress
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.transfer.files import create_private

_CHUNK = 1 << 20


async def save(body: AsyncIterable[bytes], target: Path) -> int:
    """Write a body to a file of its owner alone, completely or not at all, and return its number of lines."""
    partial = target.with_name(target.name + ".partial")
    try:
        count = await _write(body, partial)
        partial.replace(target)
    except OSError as error:
        raise InvalidInput(f"{target} can't be written: {error.strerror}. Nothing was exported.") from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return count


async def _write(body: AsyncIterable[bytes], file: Path) -> int:
    count = 0
    with create_private(file) as output:
        async for chunk in body:
            count += chunk.count(b"\n")
            output.write(chunk)
        output.flush()
        os.fsync(output.fileno())
    return count


async def chunks(file: Path) -> AsyncGenerator[bytes]:
    """Yield the content of a file."""
    try:
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise InvalidInput(f"{file} can't be read: {error.strerror}. Nothing was imported.") from error
