"""Files of JSON: one record, or JSON Lines with a record on each line, compressed if the name ends in .xz."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.errors import InvalidInput

R = TypeVar("R", bound=BaseModel)


class FileRecord(BaseModel):
    """A frozen record of a file."""

    model_config = ConfigDict(frozen=True)


def read_file(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in .xz."""
    if not path.is_file():
        raise InvalidInput(f"No such file: {path}")
    content = path.read_bytes()
    try:
        return lzma.decompress(content) if path.suffix == ".xz" else content
    except lzma.LZMAError as error:
        raise InvalidInput(f"{path} cannot be decompressed: {error}") from error


def read_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the text of each record of a file with its place: the file, and the line in a file of JSON Lines."""
    try:
        text = read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text: {error}") from error
    if path.name.endswith((".json", ".json.xz")):
        yield str(path), text
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", line


def read_records(path: Path, model: type[R]) -> list[R]:
    """Return the records of a file. Raise InvalidInput that names the line and the field of the first fault."""
    return [parse_record(text, model, place) for place, text in read_texts(path)]


def parse_record(text: str, model: type[R], place: str, context: object = None) -> R:
    """Return a record. Raise InvalidInput that names its place and the field of the first fault."""
    try:
        return model.model_validate_json(text, context=context)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{place}: {f'{field}: ' if field else ''}{first['msg']}") from error
