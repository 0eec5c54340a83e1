"""Where the policy comes from."""

from __future__ import annotations

from typing import Protocol

from broker.domain.policy.document import Policy
from broker.domain.policy.tree import PolicyTree


class PolicySource(Protocol):
    """The policy of one tenant, always a whole lawful one.

    Guarantees: `current` and `tree` answer from memory and never fail once the source exists; what they return never changes
                and is the same policy. `read` puts nothing in force; `adopt` does, whole and at once.
    Errors:     `PolicyInvalidError` from `read` alone, with every problem of every file.
    """

    def current(self) -> Policy:
        """The policy in force."""
        ...

    def tree(self) -> PolicyTree:
        """The policy in force, with the places where it says what it says."""
        ...

    def read(self) -> PolicyTree:
        """Read everything again; blocks. Raises `PolicyInvalidError`."""
        ...

    def adopt(self, tree: PolicyTree) -> None:
        """Put what was read in force."""
        ...
