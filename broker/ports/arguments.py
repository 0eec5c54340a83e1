"""Arguments against a version's contract and scopes, without knowing the validator."""

from __future__ import annotations

from typing import Protocol

from broker.domain.canonical import JsonObject
from broker.domain.policy.document import ArgumentFacts, VersionPolicy


class ArgumentMatcher(Protocol):
    """What a policy decision needs to know of arguments."""

    def facts(self, version: VersionPolicy, arguments: JsonObject) -> ArgumentFacts:
        """Whether the closed contract accepts them, and which scopes they need. Pure; microseconds."""
        ...
