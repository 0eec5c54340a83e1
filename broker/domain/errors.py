"""Refusals are values, failures are exceptions.

1. A *refusal* is a foreseeable no: `Refusal`, with a stable `Reason`. `REASONS` says what each reason means on the wire:
   the OAuth error code, the HTTP status, and the sentence a person reads.
2. A *failure* is something broken: a `BrokerError`. One class for each thing that a caller can act on.

A reason is part of the wire format: it may be added, never renamed or given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why something was refused; machine readable and stable."""

    # client
    CLIENT_UNAUTHENTICATED = "client_unauthenticated"
    CLIENT_CREDENTIALS_INVALID = "client_credentials_invalid"
    CLIENT_CREDENTIALS_MULTIPLE = "client_credentials_multiple"
    CLIENT_ASSERTION_INVALID = "client_assertion_invalid"
    CLIENT_ASSERTION_REPLAYED = "client_assertion_replayed"
    CLIENT_NOT_PERMITTED = "client_not_permitted"
    # request form
    REQUEST_MALFORMED = "request_malformed"
    REQUEST_TOO_LARGE = "request_too_large"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    PARAMETER_MISSING = "parameter_missing"
    PARAMETER_REPEATED = "parameter_repeated"
    PARAMETER_INVALID = "parameter_invalid"
    GRANT_TYPE_UNSUPPORTED = "grant_type_unsupported"
    TOKEN_TYPE_UNSUPPORTED = "token_type_unsupported"  # noqa: S105
    SCOPE_MALFORMED = "scope_malformed"
    DETAIL_MALFORMED = "detail_malformed"
    DETAIL_TYPE_UNKNOWN = "detail_type_unknown"
    TARGET_UNKNOWN = "target_unknown"
    TARGET_MISMATCH = "target_mismatch"
    # a token, whoever presents it
    TOKEN_MALFORMED = "token_malformed"  # noqa: S105
    TOKEN_TYPE_INVALID = "token_type_invalid"  # noqa: S105
    TOKEN_ALGORITHM_REFUSED = "token_algorithm_refused"  # noqa: S105
    TOKEN_HEADER_CRITICAL = "token_header_critical"  # noqa: S105
    TOKEN_ISSUER_UNKNOWN = "token_issuer_unknown"  # noqa: S105
    TOKEN_KEY_UNKNOWN = "token_key_unknown"  # noqa: S105
    TOKEN_KEYS_UNAVAILABLE = "token_keys_unavailable"  # noqa: S105
    TOKEN_SIGNATURE_INVALID = "token_signature_invalid"  # noqa: S105
    TOKEN_AUDIENCE_MISMATCH = "token_audience_mismatch"  # noqa: S105
    TOKEN_EXPIRED = "token_expired"  # noqa: S105
    TOKEN_NOT_YET_VALID = "token_not_yet_valid"  # noqa: S105
    TOKEN_LIFETIME_EXCESSIVE = "token_lifetime_excessive"  # noqa: S105
    TOKEN_CLAIM_MISSING = "token_claim_missing"  # noqa: S105
    TOKEN_CLAIM_INVALID = "token_claim_invalid"  # noqa: S105
    # a credential of ours
    CREDENTIAL_REVOKED = "credential_revoked"
    CREDENTIAL_FOREIGN = "credential_foreign"
    CREDENTIAL_USED_UP = "credential_used_up"
    CREDENTIAL_TASK_MISMATCH = "credential_task_mismatch"
    CREDENTIAL_TOOL_MISMATCH = "credential_tool_mismatch"
    CREDENTIAL_SCOPE_INSUFFICIENT = "credential_scope_insufficient"
    # a credential of ours as subject token
    SUBJECT_CREDENTIAL_DEAD = "subject_credential_dead"
    SUBJECT_CREDENTIAL_USED_UP = "subject_credential_used_up"
    SCOPE_BEYOND_SUBJECT = "scope_beyond_subject"
    VERSION_NOT_DELEGATED = "version_not_delegated"
    TRANSACTION_MISMATCH = "transaction_mismatch"
    # lifecycle
    TOOL_UNKNOWN = "tool_unknown"
    VERSION_UNKNOWN = "version_unknown"
    VERSION_NOT_SERVED = "version_not_served"
    VERSION_RETIRED = "version_retired"
    VERSION_ROLLED_BACK = "version_rolled_back"
    VERSION_NOT_ROUTED = "version_not_routed"
    CONTRACT_MISMATCH = "contract_mismatch"
    POLICY_MISMATCH = "policy_mismatch"
    # policy
    TASK_MISSING = "task_missing"
    TASK_UNKNOWN = "task_unknown"
    TASK_NOT_ALLOWED = "task_not_allowed"
    ARGUMENTS_REQUIRED = "arguments_required"
    ARGUMENTS_INVALID = "arguments_invalid"
    ARGUMENT_OUTSIDE_ROOT = "argument_outside_root"
    ARGUMENT_SEPARATOR = "argument_separator"
    SCOPE_NOT_IN_TASK = "scope_not_in_task"
    SCOPE_NOT_GRANTED = "scope_not_granted"
    CEILING_EXCEEDED = "ceiling_exceeded"
    LIFETIME_EXHAUSTED = "lifetime_exhausted"
    # the life of a version, asked for by an administrator
    ADMIN_UNAUTHENTICATED = "admin_unauthenticated"
    ADMIN_NOT_PERMITTED = "admin_not_permitted"
    COMMAND_MALFORMED = "command_malformed"
    TRANSITION_NOT_ALLOWED = "transition_not_allowed"
    VERSION_NOT_IN_POLICY = "version_not_in_policy"
    VERSION_NOT_PUBLISHED = "version_not_published"
    DIGEST_CONFLICT = "digest_conflict"
    SUNSET_TOO_EARLY = "sunset_too_early"
    SUNSET_NOT_REACHED = "sunset_not_reached"
    NO_VERSION_LEFT = "no_version_left"
    STATE_CONFLICT = "state_conflict"
    POLICY_INVALID = "policy_invalid"
    POLICY_REFUSED = "policy_refused"
    RECEIPT_UNKNOWN = "receipt_unknown"
    # the feed
    VERIFIER_TAKEN = "verifier_taken"
    VERIFIERS_TOO_MANY = "verifiers_too_many"
    LISTENERS_TOO_MANY = "listeners_too_many"


@dataclass(frozen=True, slots=True)
class Wire:
    """What a reason is on the wire: OAuth error code (RFC 6749 §5.2, RFC 8693 §2.2.2, RFC 9396 §5), HTTP status, words."""

    error: str
    status: int
    says: str


_CLIENT: Final = "invalid_client"
_REQUEST: Final = "invalid_request"
_DETAIL: Final = "invalid_authorization_details"
_TARGET: Final = "invalid_target"
_SCOPE: Final = "invalid_scope"

REASONS: Final[dict[Reason, Wire]] = {
    Reason.CLIENT_UNAUTHENTICATED: Wire(_CLIENT, 401, "the client did not authenticate"),
    Reason.CLIENT_CREDENTIALS_INVALID: Wire(_CLIENT, 401, "the client's credentials are wrong"),
    Reason.CLIENT_CREDENTIALS_MULTIPLE: Wire(_REQUEST, 400, "the client authenticated in more than one way"),
    Reason.CLIENT_ASSERTION_INVALID: Wire(_CLIENT, 401, "the client assertion is not acceptable"),
    Reason.CLIENT_ASSERTION_REPLAYED: Wire(_CLIENT, 401, "the client assertion was used before"),
    Reason.CLIENT_NOT_PERMITTED: Wire("unauthorized_client", 400, "the client may not do this"),
    Reason.REQUEST_MALFORMED: Wire(_REQUEST, 400, "the request is not well formed"),
    Reason.REQUEST_TOO_LARGE: Wire(_REQUEST, 413, "the request is too large"),
    Reason.METHOD_NOT_ALLOWED: Wire(_REQUEST, 405, "the method is not allowed here"),
    Reason.PARAMETER_MISSING: Wire(_REQUEST, 400, "a required parameter is missing"),
    Reason.PARAMETER_REPEATED: Wire(_REQUEST, 400, "a parameter is given more than once"),
    Reason.PARAMETER_INVALID: Wire(_REQUEST, 400, "a parameter has an unacceptable value"),
    Reason.GRANT_TYPE_UNSUPPORTED: Wire("unsupported_grant_type", 400, "the grant type is not supported"),
    Reason.TOKEN_TYPE_UNSUPPORTED: Wire(_REQUEST, 400, "the token type is not supported"),
    Reason.SCOPE_MALFORMED: Wire(_SCOPE, 400, "the scope parameter is not well formed"),
    Reason.DETAIL_MALFORMED: Wire(_DETAIL, 400, "authorization_details is not well formed"),
    Reason.DETAIL_TYPE_UNKNOWN: Wire(_DETAIL, 400, "the type of the authorization detail is unknown"),
    Reason.TARGET_UNKNOWN: Wire(_TARGET, 400, "the resource or audience is not a known target"),
    Reason.TARGET_MISMATCH: Wire(_TARGET, 400, "the resource or audience is not the target of this tool"),
    Reason.TOKEN_MALFORMED: Wire(_REQUEST, 400, "the token is not a well formed signed JWT"),
    Reason.TOKEN_TYPE_INVALID: Wire(_REQUEST, 400, "the token's typ header is not acceptable"),
    Reason.TOKEN_ALGORITHM_REFUSED: Wire(_REQUEST, 400, "the token's algorithm is not allowed for its issuer"),
    Reason.TOKEN_HEADER_CRITICAL: Wire(_REQUEST, 400, "the token has a crit header, which is not understood"),
    Reason.TOKEN_ISSUER_UNKNOWN: Wire(_REQUEST, 400, "the token's issuer is not trusted here"),
    Reason.TOKEN_KEY_UNKNOWN: Wire(_REQUEST, 400, "no key of the issuer fits the token"),
    Reason.TOKEN_KEYS_UNAVAILABLE: Wire(_REQUEST, 400, "the issuer's keys are not known at present"),
    Reason.TOKEN_SIGNATURE_INVALID: Wire(_REQUEST, 400, "the token's signature is wrong"),
    Reason.TOKEN_AUDIENCE_MISMATCH: Wire(_REQUEST, 400, "the token is meant for somebody else"),
    Reason.TOKEN_EXPIRED: Wire(_REQUEST, 400, "the token has expired"),
    Reason.TOKEN_NOT_YET_VALID: Wire(_REQUEST, 400, "the token is not valid yet"),
    Reason.TOKEN_LIFETIME_EXCESSIVE: Wire(_REQUEST, 400, "the token lives longer than is accepted"),
    Reason.TOKEN_CLAIM_MISSING: Wire(_REQUEST, 400, "the token lacks a required claim"),
    Reason.TOKEN_CLAIM_INVALID: Wire(_REQUEST, 400, "a claim of the token has an unacceptable value"),
    Reason.CREDENTIAL_REVOKED: Wire("invalid_token", 401, "the credential is not active"),
    Reason.CREDENTIAL_FOREIGN: Wire("unauthorized_client", 400, "the credential was issued to another client"),
    Reason.CREDENTIAL_USED_UP: Wire("invalid_token", 401, "the credential has no uses left"),
    Reason.CREDENTIAL_TASK_MISMATCH: Wire("insufficient_scope", 403, "the credential was issued for another task"),
    Reason.CREDENTIAL_TOOL_MISMATCH: Wire(
        "insufficient_scope", 403, "the credential was issued for another tool version"
    ),
    Reason.CREDENTIAL_SCOPE_INSUFFICIENT: Wire("insufficient_scope", 403, "the credential lacks a needed scope"),
    Reason.SUBJECT_CREDENTIAL_DEAD: Wire(
        _REQUEST, 400, "the credential to be exchanged, or one that it came from, is not active"
    ),
    Reason.SUBJECT_CREDENTIAL_USED_UP: Wire(_REQUEST, 400, "the credential to be exchanged has no uses left"),
    Reason.SCOPE_BEYOND_SUBJECT: Wire(
        _SCOPE, 400, "the credential to be exchanged lacks a scope that would be granted"
    ),
    Reason.VERSION_NOT_DELEGATED: Wire(_TARGET, 400, "a credential leads to no other version of its own tool"),
    Reason.TRANSACTION_MISMATCH: Wire(_DETAIL, 400, "the call stated is not that of the credential to be exchanged"),
    Reason.TOOL_UNKNOWN: Wire(_DETAIL, 400, "the tool is unknown"),
    Reason.VERSION_UNKNOWN: Wire(_DETAIL, 400, "this version of the tool was never served"),
    Reason.VERSION_NOT_SERVED: Wire(_DETAIL, 400, "this version of the tool is not served yet"),
    Reason.VERSION_RETIRED: Wire(_DETAIL, 400, "this version of the tool is retired: list the tools again, retry once"),
    Reason.VERSION_ROLLED_BACK: Wire(
        _DETAIL, 400, "this version of the tool was rolled back: list the tools again, retry once"
    ),
    Reason.VERSION_NOT_ROUTED: Wire(_DETAIL, 400, "this version is a canary that is not served to this principal"),
    Reason.CONTRACT_MISMATCH: Wire(_DETAIL, 400, "the contract digest is not that of this version"),
    Reason.POLICY_MISMATCH: Wire(
        _DETAIL, 400, "the loaded policy of this version is not the one it was published with"
    ),
    Reason.TASK_MISSING: Wire(_REQUEST, 400, "no task was named, and this principal has not exactly one"),
    Reason.TASK_UNKNOWN: Wire(_DETAIL, 400, "the task is unknown to this version"),
    Reason.TASK_NOT_ALLOWED: Wire(_REQUEST, 400, "policy does not allow this principal the task"),
    Reason.ARGUMENTS_REQUIRED: Wire(_REQUEST, 400, "the arguments are needed to decide"),
    Reason.ARGUMENTS_INVALID: Wire(_REQUEST, 400, "the arguments do not fit the contract"),
    Reason.ARGUMENT_OUTSIDE_ROOT: Wire(_REQUEST, 400, "an argument leads outside what policy allows"),
    Reason.ARGUMENT_SEPARATOR: Wire(_REQUEST, 400, "an argument holds a character that a scope cannot carry"),
    Reason.SCOPE_NOT_IN_TASK: Wire(_REQUEST, 400, "the arguments need a scope that the task does not grant"),
    Reason.SCOPE_NOT_GRANTED: Wire(_SCOPE, 400, "the requested scope is wider than what is granted"),
    Reason.CEILING_EXCEEDED: Wire(_REQUEST, 400, "the issuer or client may never have this"),
    Reason.LIFETIME_EXHAUSTED: Wire(_REQUEST, 400, "nothing is left of the token's lifetime"),
    Reason.ADMIN_UNAUTHENTICATED: Wire(_CLIENT, 401, "the administrator did not authenticate"),
    Reason.ADMIN_NOT_PERMITTED: Wire("access_denied", 403, "the administrator may not do this"),
    Reason.COMMAND_MALFORMED: Wire(_REQUEST, 400, "the command is not well formed"),
    Reason.TRANSITION_NOT_ALLOWED: Wire("conflict", 409, "the version's state does not allow this"),
    Reason.VERSION_NOT_IN_POLICY: Wire("not_found", 404, "the loaded policy has no such version"),
    Reason.VERSION_NOT_PUBLISHED: Wire("not_found", 404, "the version was never published"),
    Reason.DIGEST_CONFLICT: Wire("conflict", 409, "the version was published with another contract"),
    Reason.SUNSET_TOO_EARLY: Wire("conflict", 409, "the sunset is too early"),
    Reason.SUNSET_NOT_REACHED: Wire("conflict", 409, "the sunset has not been reached"),
    Reason.NO_VERSION_LEFT: Wire("conflict", 409, "no version of the tool would be left to serve"),
    Reason.STATE_CONFLICT: Wire("conflict", 409, "the version changed meanwhile"),
    Reason.POLICY_INVALID: Wire("conflict", 409, "the policy files are not a lawful policy"),
    Reason.POLICY_REFUSED: Wire("conflict", 409, "the rules refuse this policy, or cannot decide about it"),
    Reason.RECEIPT_UNKNOWN: Wire("not_found", 404, "no revocation is known at this point of the clock"),
    Reason.VERIFIER_TAKEN: Wire("conflict", 409, "another client has a verifier of this name"),
    Reason.VERIFIERS_TOO_MANY: Wire("temporarily_unavailable", 429, "the client has too many verifiers"),
    Reason.LISTENERS_TOO_MANY: Wire("temporarily_unavailable", 429, "the client follows the feed too often at once"),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A foreseeable no. Callers match on `reason`; people read `detail`.

    reason: stable, machine readable.
    detail: one sentence for the caller: what was found, what was expected, how to mend it. No token, secret, argument.
    where:  parameter, claim or JSON pointer that the refusal is about.
    why:    for the operator and the audit log only: the rule that decided. Never sent to a caller.
    data:   further facts for the caller, JSON values only (such as the current version, or a report's findings).
    """

    reason: Reason
    detail: str
    where: str | None = None
    why: str | None = None
    data: tuple[tuple[str, object], ...] = ()

    @property
    def wire(self) -> Wire:
        return REASONS[self.reason]


class BrokerError(Exception):
    """Something broke.

    Raised: never itself; see the subclasses.
    Wire:   503 with `Retry-After` (RFC 9110 §15.6.4) unless a subclass says otherwise.
    Retry:  yes, after `retry_after_seconds`.
    Units:  `retry_after_seconds` is whole seconds.
    """

    retry_after_seconds: int = 1


class StoreUnavailableError(BrokerError):
    """The store did not answer in time, or not at all.

    Raised: by every store port; whether a write took effect is unknown, a repeat with the same id acts once.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  yes, with the same id.
    """


class StoreUnclaimedError(BrokerError):
    """The store is another incarnation than the one this broker claimed, or has been claimed by another broker.

    Raised: by every store port after a restart, failover, flush or restore, until the broker has claimed it anew.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  yes; the broker claims by itself.
    """


class StoreFullError(BrokerError):
    """The store has no memory left for a new credential; revocations still go through.

    Raised: by `issue` alone.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  yes, once credentials have expired or memory was added.
    """

    retry_after_seconds = 5


class StoreUnsuitableError(BrokerError):
    """The store is one on which the promises cannot be kept (eviction policy, version, missing rights).

    Raised: at start, and whenever the store's settings change under a running broker.
    Wire:   503; the broker does not become ready.
    Retry:  no, until an operator has mended the store's configuration, which the message names.
    """

    retry_after_seconds = 30


class StoreUnknownError(BrokerError):
    """The store knows of a claim that this broker's audit log does not: it cannot tell whether it knows every revocation.

    Raised: by the claim, before anything is minted.
    Wire:   503; the broker does not become ready.
    Retry:  no; give the broker the audit log that belongs to the store, or claim with a stated reason.
    """

    retry_after_seconds = 30


class AuditUnavailableError(BrokerError):
    """The audit log could not make a record durable, so nothing that needs the record happens.

    Raised: by `append`, when the disk is full or broken, the queue is full, or the deadline has passed. The record may or
            may not be on disk; a repeat with the same record id stores it once.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  yes, with the same record.
    """

    retry_after_seconds = 2


class UnrecordedError(BrokerError):
    """A revocation or lifecycle change is effective in the store but not yet in the audit log.

    Raised: by the command that made it (it took effect), and by every exchange until it has been recorded.
    Wire:   503 `effective_not_recorded` for the command, 503 `temporarily_unavailable` for exchanges.
    Retry:  not the command; it has acted. The broker records it by itself as soon as it can.
    Units:  `point` is gen and seq of what took effect, where that is known.
    """

    retry_after_seconds = 2
    point: tuple[int, int] | None = None


class ReceiptUnavailableError(BrokerError):
    """A revocation has acted, and its receipt cannot be given now.

    Raised: by the wait for a receipt: the store does not tell who has applied it, the audit log cannot take the receipt down,
            or the broker has no key left to sign it with.
    Wire:   503 `effective_without_receipt` for a command, 503 `temporarily_unavailable` for a later question.
    Retry:  not the command; it has acted. The receipt can be asked for later.
    Units:  `point` is gen and seq of the revocation.
    """

    point: tuple[int, int] | None = None


class SigningUnavailableError(BrokerError):
    """The broker has no key to sign with: the one that signed was revoked, and no other can be made.

    Raised: by every use of the signing key, before anything is handed out.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  no, until an operator has put a new key into the key folder or made it writable; the broker sees that by itself.
    """

    retry_after_seconds = 30


class DeadlineError(BrokerError):
    """The request was not finished within its deadline.

    Raised: at the edge.
    Wire:   503 `temporarily_unavailable` with `Retry-After`.
    Retry:  yes.
    """


class ConfigurationError(BrokerError):
    """A setting, a file or an environment variable is missing or wrong.

    Raised: at start; the message names the setting and how to mend it.
    Wire:   none: the broker does not start. The command exits with 3.
    Retry:  no.
    """
