"""Adapters of optional packages, which the distribution `vmemo-integrations` has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vmemo.errors import MissingExtra


def load_integration(name: str, what: str) -> Any:
    """Return a module of `vmemo_integrations`; the extra of the same name installs it. `what` begins the error."""
    try:
        return import_module(f"vmemo_integrations.{name}")
    except ModuleNotFoundError as error:
        extra = name.replace("_", "-")
        raise MissingExtra(f"{what} needs another package. Install it with: pip install 'vmemo[{extra}]'") from error
