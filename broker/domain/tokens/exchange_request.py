"""The token exchange request: form parameters in, one request out (RFC 8693 §2.1, RFC 9396 §2).

1. No parameter twice; an empty one is an absent one (RFC 6749 §3.2); unknown ones are ignored (there).
2. grant_type is token exchange.
3. subject_token and subject_token_type are there; the type is access_token or jwt; actor_token comes with its type.
4. requested_token_type, where given, is access_token or jwt.
5. scope, where given, is well formed.
6. authorization_details is an array with exactly one object of type `mcp_tool_call`, with known members only.
7. The arguments have a canonical spelling (RFC 8785): what has none cannot be bound to a credential.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonError, JsonObject, JsonValue, canonical_json, parse_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import (
    Digest,
    TaskName,
    ToolName,
    Version,
    parse_digest,
    parse_task_name,
    parse_tool_name,
    parse_transaction,
    parse_version,
)
from broker.domain.scopes import MAX_SCOPES, ScopeSet, parse_scope_parameter

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
TOKEN_TYPES: Final = frozenset({ACCESS_TOKEN, JWT})
DETAIL_TYPE: Final = "mcp_tool_call"
MAX_DETAILS_BYTES: Final = 65_536
_MEMBERS: Final = frozenset(
    {"type", "tool", "version", "contract", "task", "arguments", "txn", "protocol_version", "application"}
)


@dataclass(frozen=True, slots=True)
class Detail:
    """One RFC 9396 detail: the tool call that the credential is for. None where the member was absent.

    arguments_spelled: the canonical spelling of the arguments.
    """

    tool: ToolName
    version: Version | None = None
    contract: Digest | None = None
    task: TaskName | None = None
    arguments: JsonObject | None = None
    txn: str | None = None
    protocol_version: str | None = None
    application: str | None = None
    arguments_spelled: bytes | None = None


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    """A well-formed exchange request. Tokens are unverified."""

    unverified_subject_token: str
    subject_token_type: str
    unverified_actor_token: str | None
    resource: str | None
    audience: str | None
    scopes: ScopeSet | None
    issued_token_type: str
    detail: Detail


def unique_parameters(pairs: Sequence[tuple[str, str]]) -> dict[str, str] | Refusal:
    """Parameters by name, empty ones left out (rule 1)."""
    made: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in pairs:
        if name in seen:
            return Refusal(Reason.PARAMETER_REPEATED, "send each parameter once", where=_shown(name))
        seen.add(name)
        if value:
            made[name] = value
    return made


def _shown(name: str) -> str:
    return name if name.isascii() and name.isprintable() and len(name) <= 64 else "(a parameter)"


def parse_exchange(form: Mapping[str, str]) -> ExchangeRequest | Refusal:
    """The exchange request in the form's parameters, or what is wrong with it."""
    grant_type = form.get("grant_type")
    if grant_type is None:
        return _missing("grant_type", GRANT_TYPE)
    if grant_type != GRANT_TYPE:
        return Refusal(Reason.GRANT_TYPE_UNSUPPORTED, f"only {GRANT_TYPE} is supported", where="grant_type")
    for name in ("subject_token", "subject_token_type", "authorization_details"):
        if name not in form:
            return _missing(name, _EXPECTED[name])
    for name in ("subject_token_type", "actor_token_type"):
        if name in form and form[name] not in TOKEN_TYPES:
            return Refusal(Reason.TOKEN_TYPE_UNSUPPORTED, f"{ACCESS_TOKEN} or {JWT} was expected", where=name)
    if ("actor_token" in form) != ("actor_token_type" in form):
        lacking = "actor_token_type" if "actor_token" in form else "actor_token"
        return _missing(lacking, "actor_token and actor_token_type come together")
    requested = form.get("requested_token_type", ACCESS_TOKEN)
    if requested not in TOKEN_TYPES:
        return Refusal(
            Reason.TOKEN_TYPE_UNSUPPORTED, f"{ACCESS_TOKEN} or {JWT} can be requested", where="requested_token_type"
        )
    scopes: ScopeSet | None = None
    if "scope" in form:
        scopes = parse_scope_parameter(form["scope"])
        if scopes is None:
            return Refusal(
                Reason.SCOPE_MALFORMED,
                f"at most {MAX_SCOPES} scope tokens with one space between them were expected (RFC 6749 §3.3)",
                where="scope",
            )
    detail = parse_details(form["authorization_details"])
    if isinstance(detail, Refusal):
        return detail
    return ExchangeRequest(
        unverified_subject_token=form["subject_token"],
        subject_token_type=form["subject_token_type"],
        unverified_actor_token=form.get("actor_token"),
        resource=form.get("resource"),
        audience=form.get("audience"),
        scopes=scopes,
        issued_token_type=requested,
        detail=detail,
    )


_EXPECTED: Final = {
    "subject_token": "the caller's own token",
    "subject_token_type": f"{ACCESS_TOKEN} or {JWT}",
    "authorization_details": f'[{{"type":"{DETAIL_TYPE}","tool":…,"version":…,"task":…,"arguments":{{…}}}}]',
}


def _missing(name: str, expected: str) -> Refusal:
    return Refusal(Reason.PARAMETER_MISSING, f"expected: {expected}", where=name)


def parse_details(text: str) -> Detail | Refusal:
    """The one detail in an authorization_details parameter (rule 6)."""
    if len(text) > MAX_DETAILS_BYTES:
        return _malformed(f"at most {MAX_DETAILS_BYTES} bytes are read")
    try:
        value = parse_json(text)
    except JsonError as error:
        return _malformed(f"not acceptable JSON: {error}")
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        return _malformed("an array with exactly one object was expected")
    detail = value[0]
    if detail.get("type") != DETAIL_TYPE:
        return Refusal(
            Reason.DETAIL_TYPE_UNKNOWN, f'"type":"{DETAIL_TYPE}" was expected', where="authorization_details/0/type"
        )
    unknown = sorted(set(detail) - _MEMBERS)
    if unknown:
        return _malformed(f"unknown member; known are {', '.join(sorted(_MEMBERS))}", _shown(unknown[0]))
    return _detail(detail)


def _detail(detail: Mapping[str, JsonValue]) -> Detail | Refusal:
    tool = parse_tool_name(detail.get("tool"))
    if tool is None:
        return _malformed("a tool name was expected: 1–128 letters, digits, `_`, `.`, `-`", "tool")
    arguments = detail.get("arguments")
    if "arguments" in detail and not isinstance(arguments, dict):
        return _malformed("the arguments are an object", "arguments")
    try:
        spelled = canonical_json(arguments) if isinstance(arguments, dict) else None
    except JsonError as error:
        return _malformed(f"the arguments have no canonical spelling (RFC 8785): {error}", "arguments")
    made = Detail(
        tool=tool,
        version=parse_version(detail.get("version")),
        contract=parse_digest(detail.get("contract")),
        task=parse_task_name(detail.get("task")),
        arguments=arguments if isinstance(arguments, dict) else None,
        txn=parse_transaction(detail.get("txn")),
        protocol_version=_label(detail.get("protocol_version")),
        application=_label(detail.get("application")),
        arguments_spelled=spelled,
    )
    for name in detail.keys() & _FORMS.keys():
        if getattr(made, name) is None:
            return _malformed(f"{_FORMS[name]} was expected", name)
    return made


_FORMS: Final = {
    "version": "a version: a string of 1–64 letters, digits, `_`, `.`, `+`, `-`",
    "contract": "a digest: `sha256:` and 64 lower-case hex digits",
    "task": "a task name: lower-case letters, digits, `_`, `.`, `-`, a letter first",
    "txn": "1–128 letters, digits, `_`, `.`, `:`, `-`",
    "protocol_version": "1–64 printable ASCII characters",
    "application": "1–64 printable ASCII characters",
}


def _label(value: object) -> str | None:
    return (
        value if isinstance(value, str) and 0 < len(value) <= 64 and value.isascii() and value.isprintable() else None
    )


def _malformed(detail: str, member: str | None = None) -> Refusal:
    where = "authorization_details" + (f"/0/{member}" if member else "")
    return Refusal(Reason.DETAIL_MALFORMED, detail, where=where)
