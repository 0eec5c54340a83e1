"""Where the policy comes from."""

from __future__ import annotations

from typing import Protocol

from broker.domain.policy.document import Policy


class PolicySource(Protocol):
    """The policy of one tenant, always a whole lawful one.

    Guarantees: `current` answers from memory and never fails once the source exists; what it returns never changes.
                `reload` either replaces the policy whole or leaves the last good one in place.
    Errors:     `PolicyInvalidError` from `reload` alone, with every problem of every file.
    """

    def current(self) -> Policy:
        """The last good policy."""
        ...

    def reload(self) -> Policy:
        """Read everything again; the new policy. Raises `PolicyInvalidError`, and the last good policy stays."""
        ...
