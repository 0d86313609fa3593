"""Claims: sentences that state one value of an attribute that a subject has only one of."""

from __future__ import annotations

from vmemo.text.claims.compare import Claim, compare_claims
from vmemo.text.claims.parse import parse_claim

__all__ = ["Claim", "compare_claims", "parse_claim"]
