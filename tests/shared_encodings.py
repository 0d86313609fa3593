"""Encodings computed once per process: tests retain the same conversations, and each would encode its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from vmemo.embedding.packaged import EncoderRow, PackagedEmbedder
from vmemo.models.search import Encoding

MOST = 4_000
"""Encodings that are kept, about 30 KB each."""
Run = Callable[[PackagedEmbedder, Sequence[EncoderRow]], list[Encoding]]


class SharedEncodings:
    """The passes of every packaged embedder. A text's encoding does not depend on the other texts of its pass."""

    def __init__(self, run: Run) -> None:
        self.shared = True
        self._run = run
        self._known: OrderedDict[object, Encoding] = OrderedDict()

    def run(self, embedder: PackagedEmbedder, rows: Sequence[EncoderRow]) -> list[Encoding]:
        """Run the rows that no test has run so far; with `shared` off, all of them."""
        if not self.shared:
            return self._run(embedder, rows)
        keys = [(embedder.name, row.kind, *row.ids, None if row.spans is None else row.spans.tobytes()) for row in rows]
        found = {key: self._known[key] for key in keys if key in self._known}
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in found}
        if new:
            found.update(zip(new, self._run(embedder, list(new.values())), strict=True))
        for key in new:
            self._known[key] = found[key]
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return [found[key] for key in keys]


def share_encodings() -> SharedEncodings:
    """Let every packaged embedder of this process use the same encodings."""
    shared = SharedEncodings(PackagedEmbedder._run)  # pyright: ignore[reportPrivateUsage]
    PackagedEmbedder._run = lambda self, rows: shared.run(self, rows)  # pyright: ignore[reportPrivateUsage]
    return shared
