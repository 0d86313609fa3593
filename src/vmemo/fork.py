"""Detection of fork(): threads and connections of a process do not exist in its children."""

from __future__ import annotations

import os

from vmemo.errors import StoreError


class ProcessGuard:
    """The process that opened connections and started threads."""

    def __init__(self) -> None:
        self._process: int | None = None

    @property
    def forked(self) -> bool:
        """True in a child of the process that opened them."""
        return self._process not in (None, os.getpid())

    def enter(self) -> None:
        """Remember this process; raise StoreError if another one is remembered, where a call would never return."""
        if self.forked:
            raise StoreError(
                "This memory was opened before fork(), and its threads and connections do not exist in the child "
                "process. Nothing was done. Create the Memory in the child, or use the start method 'spawn'."
            )
        self._process = os.getpid()

    def reset(self) -> None:
        """Forget the process, after everything is closed."""
        self._process = None
