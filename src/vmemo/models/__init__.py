"""Frozen public data, shared by stages, stores and interfaces."""

from vmemo.models.recalled import *  # noqa: F403 - the package offers the names of both modules
from vmemo.models.records import *  # noqa: F403
