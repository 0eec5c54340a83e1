"""Loading policy: a new one takes the place of the last good one whole, and is written down.

A version that was published keeps what it was published with: where the loaded policy says something else for it, the
version is refused at the exchange, and named here.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.audit.records import PolicyChanged
from broker.domain.ids import Digest, VersionId
from broker.domain.lifecycle.states import LifecycleView
from broker.domain.policy.document import Policy
from broker.ports.policy import PolicySource
from broker.ports.system import Clock, Entropy
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Loaded:
    """edited: published versions whose loaded policy is not the published one."""

    digest: Digest
    edited: tuple[VersionId, ...]


class Policies:
    """One for a process."""

    def __init__(
        self, *, source: PolicySource, cache: LifecycleCache, recorder: Recorder, clock: Clock, entropy: Entropy
    ) -> None:
        self._source = source
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy

    async def reload(self) -> Loaded:
        """Read the files again. Raises `PolicyInvalidError`; the last good policy then stays."""
        previous = self._source.current().digest
        policy = self._source.reload()
        return await self.announce(policy, previous=previous)

    async def announce(self, policy: Policy, *, previous: Digest | None) -> Loaded:
        """Write down which policy is in force."""
        if policy.digest != previous:
            await self._recorder.append(
                PolicyChanged(
                    id=self._entropy.token(),
                    ts=self._clock.timestamp(),
                    policy=policy.digest,
                    previous=previous,
                    tools=tuple(sorted(policy.tools)),
                )
            )
        return Loaded(digest=policy.digest, edited=edited_versions(policy, self._cache.view))


def edited_versions(policy: Policy, view: LifecycleView) -> tuple[VersionId, ...]:
    """Published versions whose policy is not loaded as it was published."""
    found = []
    for record in view.versions.values():
        tool = policy.tools.get(record.tool)
        version = tool.versions.get(record.version) if tool else None
        if version is None or version.digest != record.policy:
            found.append(record.id)
    return tuple(sorted(found))
