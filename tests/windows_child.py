"""Imports every module of vmemo and runs commands as on Windows: without fork() and the modules that only Unix has."""

from __future__ import annotations

import importlib
import importlib.abc
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

UNIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNIX_FUNCTIONS = ("chown", "fchmod", "fork", "forkpty", "getegid", "geteuid", "getgid", "getuid", "register_at_fork")
UNIX_SIGNALS = ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2")
# `python -m vmemo` runs the program when it is imported; integrations need packages of their own.
NOT_IMPORTED = (
    *("vmemo.__main__", "vmemo_integrations"),
    # Processes by fork(), which `vmemo serve --workers` refuses without it.
    *("vmemo_server.workers", "vmemo_server.shared_locks", "vmemo_server.shared_records"),
)


class NoUnixModules(importlib.abc.MetaPathFinder):
    """Refuses the modules that Windows does not have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in UNIX_MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def import_everything() -> int:
    package = importlib.import_module("vmemo")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "vmemo.")]
    names = [name for name in names if not name.startswith(NOT_IMPORTED)]
    for name in names:
        importlib.import_module(name)
    return len(names)


def become_windows() -> None:
    """Unload vmemo and Unix; other packages keep what they imported before."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vmemo" or name in UNIX_MODULES]:
        del sys.modules[name]
    for owner, names in ((os, UNIX_FUNCTIONS), (signal, UNIX_SIGNALS)):
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    sys.meta_path.insert(0, NoUnixModules())
    sys.platform = "win32"


def run(*arguments: str) -> None:
    main = importlib.import_module("vmemo.cli").main
    sys.argv = ["vmemo", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    import_everything()
    become_windows()
    print(import_everything(), "modules")
    database = sys.argv[1]
    run("retain", "I moved to Lisbon in May.", "--speaker", "Maya", "--db", database)
    run("recall", "Where does Maya live?", "--db", database)
    run("bank", "show", "default", "--db", database)
