"""The unused bytes of a database file's pages, in which SQLite leaves copies of rows.

With `secure_delete` SQLite zeroes what it deletes, but not the place that a row leaves when its page is divided or
merged with another. Such copies stay between the cell pointers and the cells of a page until the space is used again.
Nothing reads these bytes, so they are overwritten in the file itself, page by page: the work is a scan of the file and
a write for each page with copies, where a rewrite of the file (VACUUM) would make all writers wait.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Lock

import numpy as np

from vmemo.errors import StoreError

Inode = tuple[int, int]
Range = tuple[int, int]
MOST_PAGES = 1 << 24
"""In larger files the first byte of an overflow page may be that of a b-tree page."""
_SCANNED = 1 << 22
"""Bytes that are read at a time."""
_BTREE_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}
"""Size of the header by the type of a b-tree page."""
_HEADER_SIZES = np.array([_BTREE_HEADERS.get(kind, 0) for kind in range(256)])
_ZEROS = bytes(65_536)
_LOCK_BYTE = 1 << 30
_users: Counter[Inode] = Counter()
_files: dict[Inode, FileIO] = {}
_sharing, _positioned = Lock(), Lock()


def register(inode: Inode) -> None:
    """Count a user of a database in this process."""
    with _sharing:
        _users[inode] += 1


def unregister(inode: Inode) -> None:
    """Count a user less. The last one closes the file: closing it drops the locks of every connection to it."""
    with _sharing:
        _users[inode] -= 1
        if _users[inode] <= 0:
            del _users[inode]
            if (file := _files.pop(inode, None)) is not None:
                os.close(file.fileno())


def page_file(path: Path, inode: Inode) -> PageFile:
    """Return the pages of a database that has been registered."""
    with _sharing:
        if inode not in _files:
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != inode:
                os.close(descriptor)
                raise StoreError(f"The database {path} was replaced while it was open. Nothing was overwritten.")
            # Closed by `unregister` alone: garbage collection at exit would drop the locks of a write that still runs.
            _files[inode] = FileIO(descriptor, "r+b", closefd=False)
        return PageFile.of(_files[inode])


@dataclass(frozen=True)
class PageFile:
    """The pages of a plain database file."""

    file: FileIO
    size: int
    """Bytes of a page."""
    usable: int
    """Bytes of a page without those reserved at its end."""
    count: int
    has_pointer_maps: bool

    @staticmethod
    def of(file: FileIO) -> PageFile:
        """Read the layout from the header of the file."""
        header = _read(file, 0, 100)
        size = int.from_bytes(header[16:18], "big")
        size = 65_536 if size == 1 else size
        count = os.fstat(file.fileno()).st_size // size
        return PageFile(file, size, size - header[20], count, has_pointer_maps=any(header[52:56]))

    def with_copies(self) -> list[int]:
        """Return the numbers of pages whose unused bytes are not all zero."""
        return [number for number, page in self._suspects() if any(self._nonzero(number, page))]

    def overwrite(self, numbers: Sequence[int]) -> None:
        """Zero the unused bytes of pages. Nobody may write to the database meanwhile, and its log must be empty."""
        for number in numbers:
            if number > self.count:
                continue
            start = (number - 1) * self.size
            for first, end in self._nonzero(number, _read(self.file, start, self.size)):
                _write(self.file, start + first, bytes(end - first))
        os.fsync(self.file.fileno())

    def _suspects(self) -> Iterator[tuple[int, bytes]]:
        """Yield the first page, and those with free blocks or bytes other than zero between pointers and cells.

        Overflow pages may be among them, of which any bytes may look like a header.
        """
        together = max(1, _SCANNED // self.size)
        for first in range(0, self.count, together):
            chunk = _read(self.file, first * self.size, together * self.size)
            ranges = zip(*self._unused_ranges(chunk), strict=True)
            for number, (start, stop, blocks) in enumerate(ranges, first + 1):
                begin = (number - first - 1) * self.size
                if (
                    blocks
                    or number == 1
                    or (start < stop and not chunk.startswith(_ZEROS[: stop - start], begin + start))
                ):
                    yield number, chunk[begin : begin + self.size]

    def _unused_ranges(self, chunk: bytes) -> tuple[list[int], list[int], list[bool]]:
        """Return where the range between pointers and cells starts and stops in each page, and if it has free blocks.

        All pages are read at once, because a file of a gigabyte has 250,000 of them.
        """
        pages = np.frombuffer(chunk, np.uint8, len(chunk) // self.size * self.size).reshape(-1, self.size)
        headers = _HEADER_SIZES[pages[:, 0]]
        block, cells, stops = (pages[:, at].astype(np.int64) << 8 | pages[:, at + 1] for at in (1, 3, 5))
        is_tree, starts = headers > 0, headers + 2 * cells
        stops = np.where(is_tree, np.minimum(np.where(stops == 0, 65_536, stops), self.usable), 0)
        return starts.tolist(), stops.tolist(), (is_tree & (block > 0)).tolist()

    def _nonzero(self, number: int, page: bytes) -> Iterator[Range]:
        """Yield the unused ranges of a b-tree page that are not zero."""
        base = 100 if number == 1 else 0
        header = _BTREE_HEADERS.get(page[base])
        if header is None or self._is_special(number):
            return
        first = base + header + 2 * _number(page, base + 3)
        end = _number(page, base + 5) or 65_536
        for start, stop in ((first, end), *self._free_blocks(page, _number(page, base + 1))):
            if start < stop <= self.usable and not page.startswith(_ZEROS[: stop - start], start):
                yield start, stop

    def _free_blocks(self, page: bytes, block: int) -> Iterator[Range]:
        """Yield the bodies of free blocks, which are chained in the order of their places."""
        while block and block + 4 <= self.usable:
            following, size = _number(page, block), _number(page, block + 2)
            yield block + 4, block + size
            if following <= block:
                return
            block = following

    def _is_special(self, number: int) -> bool:
        """Return True for pages that are no b-tree pages whatever their first byte is."""
        lock_page = _LOCK_BYTE // self.size + 1
        if number == lock_page:
            return True
        if not self.has_pointer_maps:
            return False
        stride = self.usable // 5 + 1
        pointer_map = (number - 2) // stride * stride + 2
        return number == (pointer_map + 1 if pointer_map == lock_page else pointer_map)


def _number(page: bytes, place: int) -> int:
    return page[place] << 8 | page[place + 1]


def _read(file: FileIO, start: int, size: int) -> bytes:
    # Windows can't read at a place without moving there.
    with _positioned:
        file.seek(start)
        return file.read(size) or b""


def _write(file: FileIO, start: int, content: bytes) -> None:
    with _positioned:
        file.seek(start)
        while content:
            content = content[file.write(content) or 0 :]
