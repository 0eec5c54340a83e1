"""Names: what each may look like, so that none can be mistaken for another or escape the place it is put in.

| name        | form                                   | source                                             |
|-------------|----------------------------------------|----------------------------------------------------|
| tool        | 1–128 of `A–Z a–z 0–9 _ . -`           | MCP 2026-07-28, server/tools, "Tool Names"         |
| version     | 1–64 of `A–Z a–z 0–9 _ . + -`          | ours; no `@`, so that `tool@version` has one reading |
| task        | 1–64 of `a–z 0–9 _ . -`, letter first  | ours                                               |
| client      | 1–200 printable ASCII                  | RFC 6749 Appendix A.1 (VSCHAR)                     |
| tenant      | 1–32 of `a–z 0–9 -`, letter first      | ours; part of the store's hash tag, so no braces   |
| digest      | `sha256:` and 64 lower-case hex digits | ours                                               |
"""

from __future__ import annotations

import re
from typing import Final, NewType

ToolName = NewType("ToolName", str)
Version = NewType("Version", str)
VersionId = NewType("VersionId", str)
TaskName = NewType("TaskName", str)
ClientId = NewType("ClientId", str)
Tenant = NewType("Tenant", str)
Digest = NewType("Digest", str)

_TOOL: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_VERSION: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_TASK: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_CLIENT: Final = re.compile(r"[\x20-\x7e]{1,200}")
_TENANT: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TXN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def parse_tool_name(value: object) -> ToolName | None:
    """The value as a tool name, or None where it is none."""
    return ToolName(value) if isinstance(value, str) and _TOOL.fullmatch(value) else None


def parse_version(value: object) -> Version | None:
    """The value as a version, or None where it is none."""
    return Version(value) if isinstance(value, str) and _VERSION.fullmatch(value) else None


def parse_task_name(value: object) -> TaskName | None:
    """The value as a task name, or None where it is none."""
    return TaskName(value) if isinstance(value, str) and _TASK.fullmatch(value) else None


def parse_client_id(value: object) -> ClientId | None:
    """The value as a client identifier, or None where it is none."""
    return ClientId(value) if isinstance(value, str) and _CLIENT.fullmatch(value) else None


def parse_tenant(value: object) -> Tenant | None:
    """The value as a tenant name, or None where it is none."""
    return Tenant(value) if isinstance(value, str) and _TENANT.fullmatch(value) else None


def parse_digest(value: object) -> Digest | None:
    """The value as a digest, or None where it is none."""
    return Digest(value) if isinstance(value, str) and _DIGEST.fullmatch(value) else None


def parse_transaction(value: object) -> str | None:
    """The value as the id of one logical call (`txn`), or None where it is none."""
    return value if isinstance(value, str) and _TXN.fullmatch(value) else None


def version_id(tool: ToolName, version: Version) -> VersionId:
    """`tool@version`: the only key under which anything about a version is kept."""
    return VersionId(f"{tool}@{version}")


def split_version_id(value: str) -> tuple[ToolName, Version] | None:
    """Tool and version of `tool@version`, or None where it is none."""
    left, at, right = value.partition("@")
    tool, version = parse_tool_name(left), parse_version(right)
    return (tool, version) if at and tool and version else None
