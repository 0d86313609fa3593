"""Branches of a bank: copies that were written apart come together, directly or through a shared folder."""

from vmemo_sync.branches import (
    BankDiff as BankDiff,
    BranchSide as BranchSide,
    Forked as Forked,
    Merged as Merged,
    diff as diff,
    fork as fork,
    merge as merge,
)
from vmemo_sync.synchronize import Synced as Synced, sync as sync
