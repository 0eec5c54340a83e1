"""Arguments that are permissions: which ones they are, and what an attack through one looks like.

An argument is a permission where it is

1. *declared*: it stands under `arguments:` of the version;
2. so *named*: the last word of its name, or of the name of the list it is in, says path, URL, host, command, query, code
   or ref; the table is `_NAMES`. A name that ends in a word for something else (`path_type`, `url_count`) is not;
3. so *used*: its description says what it is (`_USES`), and its name says nothing.

What only chooses among words that the contract lists (`enum`, `const`) is none. `ATTACKS` are tried one by one; `DANGER` is a
pattern, in the portable subset, of all values of that kind that lead elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.policy.document import VersionPolicy
from broker.domain.schema.dialect import SchemaError, escape, unescape
from broker.domain.schema.holding import MAX_PARTS, alternatives, members_of

_MAX_ARGUMENTS: Final = 500
_MAX_VISITED: Final = 20_000
_MAX_DEPTH: Final = 12

_NAMES: Final[Mapping[str, str]] = {
    "path": "path paths pathname file files filename filenames filepath filepaths dir dirs directory directories folder folders"
    " cwd workdir",
    "url": "url urls uri uris href link endpoint webhook callback",
    "host": "host hosts hostname hostnames ip address domain server",
    "command": "command commands cmd argv args script shell executable program",
    "query": "query queries sql jql cql gql graphql promql logql where aggregation pipeline",
    "code": "code expression eval snippet javascript python lambda",
    "ref": "branch branches ref refs revision commit commitish treeish tag",
}
_KINDS: Final = {word: kind for kind, words in _NAMES.items() for word in words.split()}
_USES: Final = (
    (
        "path",
        re.compile(
            r"\b(?:absolute|relative|file|directory|folder) path\b|\bpath (?:of|to) (?:the|a|an)\b", re.IGNORECASE
        ),
    ),
    ("url", re.compile(r"\b(?:the|a) (?:full )?ur[li] (?:of|to)\b", re.IGNORECASE)),
    ("command", re.compile(r"\b(?:shell|bash) command\b|\bcommand to (?:run|execute)\b", re.IGNORECASE)),
    ("query", re.compile(r"\bsql (?:query|statement)\b", re.IGNORECASE)),
)

ATTACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("../../etc/passwd", "/etc/passwd", "~/.ssh/id_rsa", "..\\..\\windows\\win.ini", "%2e%2e%2fetc%2fpasswd"),
    "url": (
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/",
        "file:///etc/passwd",
        "http://127.0.0.1:6379/",
        "https://evil.example/",
    ),
    "host": ("169.254.169.254", "127.0.0.1", "localhost", "metadata.google.internal", "evil.example"),
    "command": ("; rm -rf ~", "$(id)", "| sh", "sh -c id", "sh", "--help; id"),
    "query": ("select * from pg_shadow", "'; drop table users; --", "* or 1=1", "1=1"),
    "code": ("__import__('os').system('id')", "require('child_process').execSync('id')", "process.exit(1)"),
    "ref": ("--upload-pack=touch /tmp/x", "--output=/etc/cron.d/x", "-h"),
    "identifier": ("../../admin", "..%2fadmin", "a/../../admin", "*", "x?admin=true", "x#y"),
}
_ANY: Final = "([^a]|a)*"
DANGER: Final[Mapping[str, str]] = {
    "path": rf"^({_ANY}[/\\])?[.][.]([/\\]{_ANY})?$",
    "url": rf"^[A-Za-z]+://([^/]*@)?(169[.]254[.]169[.]254|127[.]0[.]0[.]1|localhost|evil[.]example)([:/]{_ANY})?$",
    "host": r"^(169[.]254[.]169[.]254|127[.]0[.]0[.]1|localhost|evil[.]example)$",
    "command": rf"^{_ANY}[;&|`$<>(\n]{_ANY}$",
    "query": rf"^{_ANY}[;']{_ANY}$",
    "code": rf"^{_ANY}[(]{_ANY}$",
    "ref": rf"^-{_ANY}$",
    "identifier": rf"^({_ANY}[/\\])?[.][.]([/\\]{_ANY})?$",
}


class TooManyArguments(Exception):
    """A contract has more arguments than are looked at, so that nothing can be said of all of them."""


@dataclass(frozen=True, slots=True)
class PermissionArgument:
    """because: `declared`, `name` or `use`."""

    pointer: str
    kind: str
    because: str


def kind_by_name(name: str) -> str | None:
    """The kind that a property's name says it is, in snake, kebab or camel case; None where it says none."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("-", "_").split("_")
    last = next((word for word in reversed(words) if word not in ("", "name", "names")), "")
    return _KINDS.get(last)


def permission_arguments(version: VersionPolicy) -> tuple[PermissionArgument, ...]:
    """The arguments of a version that are permissions, declared ones first; each pointer once. Raises `TooManyArguments`."""
    found = {pointer: PermissionArgument(pointer, rule.kind, "declared") for pointer, rule in version.arguments.items()}
    try:
        for pointer, node in string_arguments(version.contract.input_schema):
            kind = kind_by_name(unescape(pointer.rsplit("/", 1)[-1]))
            because = "name"
            if kind is None:
                kind, because = _kind_by_use(node), "use"
            if kind is not None and pointer not in found:
                found[pointer] = PermissionArgument(pointer, kind, because)
    except SchemaError:
        pass  # a contract with no one reading is refused as such
    return tuple(found.values())


def string_arguments(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Every argument that may hold text which the contract does not list: its pointer (a list means its members), its schema.

    Raises `SchemaError`, and `TooManyArguments`.
    """
    pending: list[tuple[str, JsonValue, int, frozenset[str]]] = [("", schema, 0, frozenset())]
    seen: set[str] = set()
    visited = 0
    while pending:
        pointer, node, depth, refs = pending.pop()
        visited += 1
        if len(seen) > _MAX_ARGUMENTS or visited > _MAX_VISITED:
            raise TooManyArguments(f"more than {_MAX_ARGUMENTS} arguments, or too many ways to them")
        if depth > _MAX_DEPTH:
            raise TooManyArguments(f"arguments nested more than {_MAX_DEPTH} deep")
        if node is True and pointer and pointer not in seen:
            seen.add(pointer)
            yield pointer, {}
        parts = alternatives(node, schema, refs)
        if len(parts) >= MAX_PARTS:
            raise TooManyArguments(f"{MAX_PARTS} or more schemas for one argument")
        for part, below in parts:
            properties = part.get("properties")
            for name, child in properties.items() if isinstance(properties, dict) else ():
                pending.append((f"{pointer}/{escape(name)}", child, depth + 1, below))
            pending.extend((pointer, member, depth + 1, below) for member in members_of(part))
            if pointer and pointer not in seen and _is_free_text(part):
                seen.add(pointer)
                yield pointer, part


def _is_free_text(part: JsonObject) -> bool:
    if "enum" in part or "const" in part:
        return False
    kind = part.get("type")
    if kind is None:
        return not any(name in part for name in ("items", "anyOf", "oneOf", "allOf", "$ref"))
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def _kind_by_use(node: JsonObject) -> str | None:
    words = node.get("description")
    if not isinstance(words, str):
        return None
    return next((kind for kind, pattern in _USES if pattern.search(words)), None)
