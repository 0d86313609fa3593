"""Counts the steps of one part of a run and tells the sink."""

from __future__ import annotations

from vmemo_bench.options import Progress, ProgressSink


class Steps:
    """So many steps lie ahead; each `advance` tells how far it is."""

    def __init__(self, sink: ProgressSink, what: str, total: int) -> None:
        self._sink = sink
        self._what = what
        self._total = total
        self._done = 0
        self._tell()

    def advance(self, steps: int = 1) -> None:
        """That many steps are done."""
        self._done += steps
        self._tell()

    def _tell(self) -> None:
        self._sink(Progress(what=self._what, done=self._done, total=self._total))
