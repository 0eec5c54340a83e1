"""What runs inside an MCP server or a protected API: the gate, its credential hand-off, and the verifier."""

from broker.gate.handoff import HeldCredential, NoCredentialError, credential

__all__ = ["HeldCredential", "NoCredentialError", "credential"]
