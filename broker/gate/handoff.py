"""The credential of the running tool call, in reach of the tool and of nothing else.

    from broker.gate import credential

    async with httpx2.AsyncClient(headers=credential().authorization) as db: ...

1. It is there from before the tool's first line until its last, also in threads and tasks that the tool starts.
2. Outside a gated call, and after its end, asking for it raises: no tool works by accident with somebody else's.
3. The caller's own token is not here, and out of the framework's hands while a tool runs (`fastmcp_token`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from broker.domain.errors import BrokerError
from broker.domain.scopes import ScopeSet


class NoCredentialError(BrokerError):
    """`credential()` was asked for outside a gated tool call, or after the call had ended.

    Raised: in the tool's own code.
    Wire:   none; it is a mistake in the server.
    Retry:  no: ask inside the tool, and hand the credential on only where it is used before the tool returns.
    """


@dataclass(frozen=True, slots=True)
class HeldCredential:
    """A credential good for this tool, version, task and arguments at `audience`. expires_at: Unix seconds."""

    token: str = field(repr=False)
    scopes: ScopeSet
    task: str
    tool: str
    version: str
    audience: str
    expires_at: int
    jti: str
    txn: str

    @property
    def authorization(self) -> dict[str, str]:
        """The header that spends it (RFC 6750 §2.1)."""
        return {"Authorization": f"Bearer {self.token}"}


class _Slot:
    """A call's place for its credential. Emptied at its end, for tasks that outlive the call hold the slot, too."""

    __slots__ = ("held",)

    def __init__(self, held: HeldCredential) -> None:
        self.held: HeldCredential | None = held


_slot: ContextVar[_Slot | None] = ContextVar("broker_gate_credential", default=None)


def credential() -> HeldCredential:
    """The credential of the tool call that is running here. Raises `NoCredentialError` outside one."""
    slot = _slot.get()
    if slot is None:
        raise NoCredentialError("no gated tool call is running here; credential() works inside a tool only")
    if slot.held is None:
        raise NoCredentialError("the tool call that this code belongs to has ended, and its credential was given back")
    return slot.held


def current() -> HeldCredential | None:
    """The credential of the enclosing call, or None; for the gate itself, when one tool calls another."""
    slot = _slot.get()
    return slot.held if slot is not None else None


@contextmanager
def holding(held: HeldCredential) -> Iterator[None]:
    """Put a credential in reach of the code inside."""
    slot = _Slot(held)
    token = _slot.set(slot)
    try:
        yield
    finally:
        slot.held = None
        _slot.reset(token)
