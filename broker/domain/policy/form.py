"""The form of the policy files: every key, what it accepts, and what it says.

The reader checks files against this table, and the JSON Schema that editors use is made from it; neither has a list of
keys of its own. Keys may be added; none is renamed, and none gets another meaning.
"""

from __future__ import annotations

import re
from typing import Final

from broker.domain.policy.document import (
    ADMIN_POWERS,
    ALGORITHMS,
    CLIENT_AUTHS,
    CLIENT_POWERS,
    KINDS,
    LOCKSTEP,
    TOKEN_TYPES,
)
from broker.domain.policy.findings import RuleId
from broker.domain.policy.shape import AnyMap, Either, Flag, ListOf, MapOf, Record, Shape, Text, Whole

TOOL: Final = Text("a tool name (letters, digits, `_`, `.`, `-`)", r"[A-Za-z0-9_.-]{1,128}")
VERSION: Final = Text('a version in quotes, such as "1.10"', r"[A-Za-z0-9_.+-]{1,64}")
TASK: Final = Text("a task name (lower-case letters, digits, `_`, `.`, `-`)", r"[a-z][a-z0-9_.-]{0,63}")
CLIENT: Final = Text("a client identifier", r"[\x20-\x7e]{1,200}")
NAME: Final = Text("a name", r"[A-Za-z0-9_.:/-]{1,128}")
WORDS: Final = Text("text")
DIGEST: Final = Text("sha256: and 64 lower-case hex digits", r"sha256:[0-9a-f]{64}")
SECRET: Final = Text(
    "sha256: and the 64 lower-case hex digits of a generated secret's SHA-256", r"sha256:[0-9a-f]{64}", secret=True
)
DURATION: Final = Text("a duration with its unit, such as 60s, 5m or 1h", r"[1-9][0-9]{0,5}[smh]")
RESOURCE: Final = Text("an absolute URI without a fragment", r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x22\x24-\x7e]+")
WEB: Final = Text("an https URL, or http on loopback", r"https?://[\x21\x22\x24-\x7e]+")
POINTER: Final = Text("a JSON pointer to an argument, such as /path", r"(/([^/~\x00-\x1f]|~[01])+)+")
PATTERN: Final = Text("a pattern in which `*` stands for any characters", r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
SCOPE: Final = Text('a scope, or a template such as "files:read:{/path}"', r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
CONTRACT: Final = Text(
    "a file under contracts/, such as contracts/db.query/3.json", r"contracts/[A-Za-z0-9_.+/-]+\.json"
)
FILE: Final = Text("a file name, relative to the policy folder or absolute", r"[\x21-\x7e]{1,1024}")

_CHANGES: Final = ("equal", "narrowed", "widened", "incomparable")
_REDUCTIONS: Final = ("equal", "reduced", "widened", "incomparable")
_CLASSES: Final = ("none", "breaking", "compatible", "semantic only", "prose became structure", "renamed")


def _one_of(options: tuple[str, ...]) -> Text:
    return Text("one of " + ", ".join(options), "|".join(map(re.escape, options)), options)


def _some_of(options: tuple[str, ...]) -> ListOf:
    return ListOf(_one_of(options), "a list of " + ", ".join(options))


def _list(item: Text) -> ListOf:
    return ListOf(item, f"a list; each member {item.expected}")


JWKS: Final = Record(
    "key source",
    {
        "url": (WEB, "where the public keys are served"),
        "file": (FILE, "a JWKS file, relative to the policy folder or absolute"),
    },
    exactly_one=("url", "file"),
)
CEILING: Final = Record(
    "ceiling",
    {
        "tools": (_list(PATTERN), "never a tool beyond these"),
        "scopes": (_list(PATTERN), "never a scope beyond these"),
    },
    required=("tools", "scopes"),
)
_AUTH: Final[dict[str, tuple[Shape, str]]] = {
    "auth": (_one_of(CLIENT_AUTHS), "how it proves who it is"),
    "jwks": (JWKS, "its public keys, with private_key_jwt"),
    "secret": (
        Either(SECRET, ListOf(SECRET, "a list of two while one is being rotated", most=2)),
        "the digest of its secret, never the secret",
    ),
}
ISSUER: Final = Record(
    "issuer",
    {
        "jwks": (JWKS, "its public keys"),
        "algorithms": (_some_of(ALGORITHMS), "the algorithms it signs with"),
        "types": (_some_of(TOKEN_TYPES), "the typ headers that are accepted; at+jwt where absent"),
        "claims": (
            MapOf(NAME, NAME, "a map from account, agent or a name of yours to a claim of the token"),
            "where account, agent and what tasks ask for are found",
        ),
        "ceiling": (CEILING, "never more than this from here"),
        "max_lifetime": (DURATION, "the longest life of a token that is accepted; 12h where absent"),
    },
    required=("jwks", "algorithms", "ceiling"),
)
CLIENT_RECORD: Final = Record(
    "client",
    {
        **_AUTH,
        "resource": (RESOURCE, "the audience of its callers' tokens, or the resource it guards"),
        "tools": (_list(PATTERN), "the tools it may act for"),
        "ceiling": (CEILING, "never more than this for it"),
        "may": (_some_of(CLIENT_POWERS), "what it may do here"),
    },
    required=("auth", "may"),
)
ADMIN: Final = Record(
    "admin",
    {**_AUTH, "may": (_some_of(ADMIN_POWERS), "which commands it may give")},
    required=("auth", "may"),
)
TRUST_FILE: Final = Record(
    "trust file",
    {
        "tenant": (
            Text("a tenant name (lower-case letters, digits, `-`)", r"[a-z][a-z0-9-]{0,31}"),
            "whose policy this is; default where absent",
        ),
        "lockstep": (
            _one_of(LOCKSTEP),
            "how strictly tightening and scope reduction belong together; strict where absent",
        ),
        "issuers": (MapOf(WEB, ISSUER, "a map of issuers", least=1), "whose subject and actor tokens are accepted"),
        "clients": (MapOf(CLIENT, CLIENT_RECORD, "a map of clients", least=1), "who exchanges and who introspects"),
        "admins": (MapOf(CLIENT, ADMIN, "a map of admins"), "who moves versions"),
        "defaults": (
            Record(
                "defaults",
                {
                    "ttl": (DURATION, "the life of a credential where a task says nothing; 60s where absent"),
                    "max_ttl": (DURATION, "the longest life of any credential; at most and by default 300s"),
                    "leeway": (DURATION, "how far clocks may differ; at most 60s, by default 10s"),
                },
            ),
            "what holds where nothing else is said",
        ),
    },
    required=("issuers", "clients"),
)

ARGUMENT: Final = Record(
    "argument",
    {
        "kind": (_one_of(KINDS), "what the argument names"),
        "within": (_list(WORDS), "the roots under which its normal form must lie"),
        "enforced_by": (_list(SCOPE), "the scopes behind which a downstream bounds it"),
    },
    required=("kind",),
)
SCOPE_RULE: Final = Record(
    "scope",
    {
        "needed_when": (
            Either(Flag(), AnyMap("a JSON Schema over the arguments")),
            "the arguments that need it: true, or a JSON Schema 2020-12",
        )
    },
    required=("needed_when",),
)
ALLOW: Final = Record(
    "allow rule",
    {
        "clients": (_list(CLIENT), "the exchanging clients it is limited to"),
        "claims": (MapOf(NAME, _list(WORDS), "a map from claims to values", least=1), "one value of each is needed"),
    },
)
TASK_RULE: Final = Record(
    "task",
    {
        "allow": (ALLOW, "who may intend it: every key must match; an empty map allows nobody"),
        "scopes": (_list(SCOPE), "what it grants"),
        "ttl": (DURATION, "how long a credential for it lives; at most max_ttl"),
        "uses": (Whole("a number of uses from 1 to 1000", 1, 1000), "how often a credential may be used"),
        "online": (Flag(), "whether who accepts a credential for it asks the broker about it each time"),
    },
    required=("allow", "scopes"),
)
VERSION_RECORD: Final = Record(
    "version",
    {
        "extends": (VERSION, "a version of this file; what is not restated is taken over from it"),
        "replaces": (VERSION, "the version that this one succeeds"),
        "contract": (CONTRACT, "what the model binds to, exactly as served"),
        "digest": (DIGEST, "the digest of the contract"),
        "arguments": (
            MapOf(POINTER, ARGUMENT, "a map from JSON pointers to arguments", nullable=True),
            "arguments that are permissions",
        ),
        "scopes": (
            MapOf(SCOPE, SCOPE_RULE, "a map of scopes", nullable=True),
            "every permission this version can need, and which arguments need it",
        ),
        "tasks": (
            MapOf(TASK, TASK_RULE, "a map of tasks", nullable=True),
            "what a caller may intend, and who may intend it",
        ),
        "change": (
            Record(
                "change",
                {
                    "inputs": (_one_of(_CHANGES), "what became of the accepted inputs"),
                    "scopes": (_one_of(_REDUCTIONS), "what became of the scopes"),
                    "class": (_one_of(_CLASSES), "what it is to a caller"),
                },
            ),
            "what the author says about the step; recomputed, never trusted",
        ),
        "unrelated": (WORDS, "why inputs and scopes moved apart"),
    },
    required=("contract", "digest", "scopes", "tasks"),
    unless="extends",
)
TOOL_FILE: Final = Record(
    "tool file",
    {
        "tool": (TOOL, "the canonical name of the tool"),
        "audience": (RESOURCE, "the resource that a credential is good for (RFC 8707)"),
        "owners": (_list(NAME), "who answers for it"),
        "versions": (MapOf(VERSION, VERSION_RECORD, "a map of versions", least=1), "what each version grants"),
    },
    required=("tool", "audience", "owners", "versions"),
)

TEST_CASE: Final = Record(
    "test case",
    {
        "name": (WORDS, "what it shows"),
        "request": (
            Record(
                "request",
                {
                    "version": (VERSION, "the version that is called"),
                    "task": (TASK, "what the caller intends; left out where it names none"),
                    "client": (CLIENT, "the exchanging client"),
                    "issuer": (WEB, "the issuer of the subject token"),
                    "claims": (MapOf(NAME, _list(WORDS), "a map from claims to values"), "what the subject token says"),
                    "arguments": (AnyMap("a map of arguments"), "left out where the caller gives none"),
                    "scope": (_list(SCOPE), "the scopes that are asked for; left out to get all that is granted"),
                },
                required=("version", "client", "issuer"),
            ),
            "what is asked",
        ),
        "permit": (_list(SCOPE), "the scopes that are granted"),
        "refuse": (Text("a reason, such as task_not_allowed", r"[a-z][a-z0-9_]{0,63}"), "the reason of the refusal"),
        "ttl": (DURATION, "how long the permitted credential lives; not looked at where absent"),
        "uses": (
            Whole("a number of uses from 1 to 1000", 1, 1000),
            "how often it may be used; not looked at where absent",
        ),
        "rule": (
            Text("the deciding rule, such as tasks/report/allow", r"[\x21-\x7e]+"),
            "which rule decides; not looked at where absent",
        ),
    },
    required=("name", "request"),
    exactly_one=("permit", "refuse"),
)
TEST_FILE: Final = Record(
    "test file",
    {
        "tool": (TOOL, "the tool that is asked about"),
        "cases": (ListOf(TEST_CASE, "a list of cases"), "requests, and what becomes of each"),
    },
    required=("tool", "cases"),
)

DAY: Final = Text('a day in quotes, such as "2027-01-31"', r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
EXCEPTION: Final = Record(
    "exception",
    {
        "rule": (_one_of(tuple(RuleId)), "the rule that shall not hold"),
        "tool": (TOOL, "the tool it is about"),
        "version": (VERSION, "the version it is about; no other is covered"),
        "key": (WORDS, "the one scope, task or argument it is about; all of the version where it is left out"),
        "reason": (WORDS, "why"),
        "approved_by": (_list(NAME), "who approved it; what may widen a grant needs two different people"),
        "expires": (DAY, "the last day it holds, at most 90 days away"),
    },
    required=("rule", "tool", "version", "reason", "approved_by", "expires"),
)
EXCEPTIONS_FILE: Final = Record(
    "exceptions file",
    {"exceptions": (ListOf(EXCEPTION, "a list of exceptions"), "reviewed departures from a rule, each for a time")},
    required=("exceptions",),
)
