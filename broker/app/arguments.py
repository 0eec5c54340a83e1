"""`ports.arguments.ArgumentMatcher` on the JSON Schema engine: each version is compiled once."""

from __future__ import annotations

from broker.domain.canonical import JsonObject
from broker.domain.ids import Digest
from broker.domain.policy.document import ArgumentFacts, Policy, VersionPolicy
from broker.engines.arguments import VersionMatcher


class CompiledArguments:
    """Matchers by policy digest, which covers contract and scopes: equal digests decide alike."""

    def __init__(self) -> None:
        self._matchers: dict[Digest, VersionMatcher] = {}

    def compile(self, policy: Policy) -> None:
        """Compile every version of a policy, so that no request pays for it."""
        for tool in policy.tools.values():
            for version in tool.versions.values():
                self._matcher(version)

    def facts(self, version: VersionPolicy, arguments: JsonObject) -> ArgumentFacts:
        return self._matcher(version).facts(arguments)

    def _matcher(self, version: VersionPolicy) -> VersionMatcher:
        found = self._matchers.get(version.digest)
        if found is None:
            found = self._matchers[version.digest] = VersionMatcher(version)
        return found
