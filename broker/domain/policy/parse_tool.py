"""A tool file: from checked nodes to the policy of each version.

Beyond the form, each departure a problem at its place:

1. A version is complete once `extends` is resolved: contract, digest, scopes, tasks.
2. The contract file exists, is JSON with one reading and a contract of this tool; `digest` is its digest.
3. An argument points at a property of the contract. Only path, url and host have roots, and every root has a normal
   form. A default of the contract lies under the roots. `enforced_by` names scopes of the version.
4. A scope is a token or a template whose placeholders are properties that hold text or whole numbers, and that cannot
   spell another scope of the version. What `needed_when` names is a property of the contract; its keywords are known.
5. A task grants scopes of the version, for at most `max_ttl`, to clients and by claims that `trust.yaml` knows.
6. `replaces` names another version of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker.domain.canonical import JsonError, JsonObject, JsonValue, parse_json
from broker.domain.contracts.contract import ContractError, ToolContract, parse_contract
from broker.domain.ids import ClientId, TaskName, ToolName, Version
from broker.domain.policy.conditions import nearest_keyword, unknown_keywords
from broker.domain.policy.document import (
    ROOTED_KINDS,
    ArgumentRule,
    ChangeClaim,
    ScopeRule,
    TaskRule,
    ToolPolicy,
    VersionPolicy,
)
from broker.domain.policy.extends import resolve_versions
from broker.domain.policy.form import TOOL_FILE
from broker.domain.policy.grant import grant_digest
from broker.domain.policy.located import Located, Problems, plain
from broker.domain.policy.parse_trust import Trust, parse_duration
from broker.domain.policy.roots import normalise_root, within
from broker.domain.policy.shape import conform
from broker.domain.policy.templates import could_spell, parse_template
from broker.domain.schema.closure import in_place
from broker.domain.schema.dialect import SchemaError, escape, unescape

_MAX_PARTS: Final = 256


def parse_tool(root: Located, *, trust: Trust, contracts: Mapping[str, bytes], problems: Problems) -> ToolPolicy | None:
    """Read one tool file. `contracts` holds the contract files by their name relative to the policy folder."""
    node = conform(TOOL_FILE, root, problems)
    name, audience, versions = node.text("tool"), node.text("audience"), node.get("versions")
    if name is None or versions is None:
        return None
    reader = _Reader(ToolName(name), audience or "", trust, contracts, problems)
    found: dict[Version, VersionPolicy] = {}
    for number, child in resolve_versions(versions, problems).items():
        version = reader.version(Version(number), child)
        if version is not None:
            found[version.version] = version
        replaces = child.get("replaces")
        if replaces is not None and (replaces.value == number or str(replaces.value) not in versions.entries()):
            message = f'the version "{replaces.value}" is not another version of this file'
            problems.report(replaces, "version.replaces", message, mend="name the version that this one succeeds")
    return ToolPolicy(tool=ToolName(name), audience=audience or "", owners=node.texts("owners"), versions=found)


class _Reader:
    """Reads the versions of one tool; every method reports what is wrong and goes on with what is right."""

    def __init__(
        self, tool: ToolName, audience: str, trust: Trust, contracts: Mapping[str, bytes], problems: Problems
    ) -> None:
        self._tool = tool
        self._audience = audience
        self._trust = trust
        self._contracts = contracts
        self._problems = problems

    def version(self, number: Version, node: Located) -> VersionPolicy | None:
        whole = True
        for key in ("contract", "digest", "scopes", "tasks"):
            if key not in node.entries():
                whole = False
                if "extends" in node.entries():
                    message = f"{key} is neither restated nor taken over"
                    self._problems.report(node, "field.missing", message, mend=f"add {key}")
        contract = self._contract(node)
        properties = contract.input_schema if contract is not None else None
        scopes = {name: self._scope(name, child, node, properties) for name, child in node.children("scopes")}
        arguments = {
            pointer: self._argument(pointer, child, scopes, properties) for pointer, child in node.children("arguments")
        }
        tasks = {TaskName(name): self._task(name, child, scopes) for name, child in node.children("tasks")}
        if contract is None or not whole:
            return None
        change = node.get("change")
        return VersionPolicy(
            tool=self._tool,
            version=number,
            audience=self._audience,
            contract=contract,
            arguments=arguments,
            scopes=scopes,
            tasks=tasks,
            digest=grant_digest(self._audience, contract.digest, arguments, scopes, tasks),
            replaces=Version(text) if (text := node.text("replaces")) else None,
            change=ChangeClaim(change.text("inputs"), change.text("scopes"), change.text("class")) if change else None,
            unrelated=node.text("unrelated"),
        )

    def _contract(self, node: Located) -> ToolContract | None:
        place = node.get("contract")
        if place is None:
            return None
        content = self._contracts.get(str(place.value))
        if content is None:
            message = f"there is no file {place.value}"
            self._problems.report(place, "version.contract", message, mend="write the contract there as it is served")
            return None
        try:
            contract = parse_contract(parse_json(content))
        except (JsonError, ContractError) as error:
            message = f"{place.value} is no contract: {error}"
            self._problems.report(place, "version.contract", message, mend="mend that file")
            return None
        if contract.name != self._tool:
            message = f"{place.value} is the contract of {contract.name}, not of {self._tool}"
            self._problems.report(place, "version.contract", message, mend="name the contract of this tool")
            return None
        stated = node.get("digest")
        if stated is not None and stated.value != contract.digest:
            message = f"the digest says {stated.value}, {place.value} has {contract.digest}"
            mend = "a published version never changes: publish a new version; before that, write the contract's digest"
            self._problems.report(stated, "version.digest", message, mend=mend)
        return contract

    def _argument(
        self, pointer: str, node: Located, scopes: Mapping[str, ScopeRule], schema: JsonObject | None
    ) -> ArgumentRule:
        kind = node.text("kind") or ""
        found = property_at(schema, pointer) if schema is not None else {}
        if found is None:
            message = f"the contract has no property {pointer}"
            self._problems.report(node, "argument.unknown", message, mend=_legal(schema))
        roots = self._roots(kind, node)
        default = found.get("default") if isinstance(found, dict) else None
        if roots and isinstance(default, str) and within(kind, default, roots) is None:
            message = f"the contract fills {pointer} in with a default that lies outside the roots"
            self._problems.report(node, "argument.root", message, mend="mend the contract, or add a root")
        enforcing = node.get("enforced_by")
        for item in enforcing.items() if enforcing is not None else ():
            if item.readable and item.value not in scopes:
                message = f"{item.value} is no scope of this version"
                self._problems.report(item, "scope.unknown", message, mend=_known("scopes", scopes))
        return ArgumentRule(pointer, kind, within=roots, enforced_by=node.texts("enforced_by"))

    def _roots(self, kind: str, node: Located) -> tuple[str, ...]:
        place = node.get("within")
        if place is None or not kind:
            return ()
        if kind not in ROOTED_KINDS:
            message = f"a {kind} has no roots; only {', '.join(ROOTED_KINDS)} have"
            self._problems.report(place, "argument.root", message, mend="take within out, or state enforced_by")
            return ()
        roots = []
        for item in place.items():
            root = normalise_root(kind, item.value) if isinstance(item.value, str) else None
            if root is not None:
                roots.append(root)
            elif item.readable:
                message = f"the root has no normal form as a {kind}"
                self._problems.report(item, "argument.root", message, mend=f"write a plain absolute {kind}")
        return tuple(roots)

    def _scope(self, template: str, node: Located, version: Located, schema: JsonObject | None) -> ScopeRule:
        place = version.entries()["scopes"].value.entries()[template].key
        placeholders = parse_template(template)
        if placeholders is None:
            message = "neither a scope token nor a template: placeholders stand between colons, no `*` or stray braces"
            self._problems.report(place, "scope.template", message, mend='write it like "files:read:{/path}"')
        for scope in version.entries()["scopes"].value.entries():
            if placeholders and parse_template(scope) == () and could_spell(template, scope):
                message = f"an argument could spell the scope {scope} with it"
                self._problems.report(place, "scope.template", message, mend='set it apart, like "db:table:{/table}"')
        for pointer in placeholders or ():
            found = property_at(schema, pointer) if schema is not None else {}
            if found is None:
                message = f"the contract has no property {pointer}"
                self._problems.report(place, "scope.template", message, mend=_legal(schema))
            elif not _holds_text(found):
                message = f"{pointer} holds neither text nor a whole number"
                self._problems.report(place, "scope.template", message, mend="name an argument that does")
        needed = node.get("needed_when")
        condition = plain(needed) if needed is not None else False
        for key in unknown_keywords(needed) if needed is not None else ():
            message = f"{key.value!r} is no keyword of JSON Schema"
            self._problems.report(key, "scope.condition", message, mend=nearest_keyword(str(key.value)))
        if needed is not None and isinstance(condition, dict) and schema is not None:
            for name in sorted(_names_in(condition)):
                if property_at(schema, f"/{escape(name)}") is None:
                    message = f"needed_when asks for {name!r}, which the contract does not have"
                    self._problems.report(needed, "scope.condition", message, mend=_legal(schema))
        return ScopeRule(template, placeholders or (), condition if isinstance(condition, bool | dict) else False)

    def _task(self, name: str, node: Located, scopes: Mapping[str, ScopeRule]) -> TaskRule:
        granted = node.get("scopes")
        for item in granted.items() if granted is not None else ():
            if item.readable and item.value not in scopes:
                message = f"{item.value} is no scope of this version"
                self._problems.report(item, "scope.unknown", message, mend=_known("scopes", scopes))
        ttl = parse_duration(node, "ttl", self._trust.defaults.ttl_seconds)
        if ttl > self._trust.defaults.max_ttl_seconds:
            message = f"ttl is {ttl} seconds, at most {self._trust.defaults.max_ttl_seconds} are accepted"
            mend = f"write at most {self._trust.defaults.max_ttl_seconds}s"
            self._problems.report(node.get("ttl") or node, "field.value", message, mend=mend)
        allow = node.get("allow")
        clients, claims = self._allow(allow) if allow is not None else ((), {})
        uses, online = node.get("uses"), node.get("online")
        return TaskRule(
            task=TaskName(name),
            clients=clients,
            claims=claims,
            scopes=node.texts("scopes"),
            ttl_seconds=ttl,
            uses=uses.value if uses is not None and isinstance(uses.value, int) else None,
            online=online is not None and online.value is True,
        )

    def _allow(self, node: Located) -> tuple[tuple[ClientId, ...], dict[str, tuple[str, ...]]]:
        clients = node.get("clients")
        for item in clients.items() if clients is not None else ():
            if item.readable and item.value not in self._trust.clients:
                message = f"trust.yaml has no client {item.value}"
                self._problems.report(item, "client.unknown", message, mend=_known("clients", self._trust.clients))
        known = {name for issuer in self._trust.issuers.values() for name in issuer.claims.others}
        wanted = node.get("claims")
        for name, entry in wanted.entries().items() if wanted is not None else ():
            if name not in known:
                message = f"no issuer in trust.yaml says where the claim {name} is found"
                mend = f"{_known('claims', known)}; or add it to the claims of an issuer"
                self._problems.report(entry.key, "claim.unknown", message, mend=mend)
        return (
            tuple(ClientId(text) for text in node.texts("clients")),
            {name: tuple(str(item.value) for item in child.items()) for name, child in node.children("claims")},
        )


def property_at(schema: JsonObject, pointer: str) -> JsonObject | None:
    """The schema of the property that a pointer into the arguments names; None where the contract lists none.

    A list on the way stands for its members; what applies beside a schema (`$ref`, `allOf`, a choice with null) is looked at
    too. A reference that leads nowhere is the validator's to report: nothing is held against the pointer then.
    """
    try:
        return _property_at(schema, pointer)
    except SchemaError:
        return {}


def _property_at(schema: JsonObject, pointer: str) -> JsonObject | None:
    found: list[JsonValue] = [schema]
    for step in pointer.split("/")[1:]:
        name = unescape(step)
        parts = [part for node in found for part in _with_members(node, schema)]
        named = [part["properties"] for part in parts if isinstance(part.get("properties"), dict)]
        found = [properties[name] for properties in named if isinstance(properties, dict) and name in properties]
        if not found:
            return None
    return found[0] if isinstance(found[0], dict) else {}


def _with_members(node: JsonValue, root: JsonObject) -> list[JsonObject]:
    """A schema, what applies beside it, and the same of the members where it describes a list."""
    found: list[JsonObject] = []
    pending = [node]
    while pending and len(found) < _MAX_PARTS:
        parts = [part for part, _ in in_place(pending.pop(), root, frozenset())]
        found.extend(parts)
        pending.extend(part["items"] for part in parts if isinstance(part.get("items"), dict))
    return found


def _holds_text(schema: JsonObject) -> bool:
    kinds = schema.get("type", ["string"])
    listed = kinds if isinstance(kinds, list) else [kinds]
    return bool({"string", "integer"}.intersection(str(kind) for kind in listed))


def _names_in(condition: JsonObject) -> set[str]:
    """The properties that a condition names at its root."""
    properties, required = condition.get("properties"), condition.get("required")
    names = set(properties) if isinstance(properties, dict) else set()
    return names | ({name for name in required if isinstance(name, str)} if isinstance(required, list) else set())


def _legal(schema: JsonObject | None) -> str:
    properties = schema.get("properties") if schema is not None else None
    return _known("properties", properties if isinstance(properties, dict) else ())


def _known(what: str, names: Iterable[str]) -> str:
    return f"{what} here: {', '.join(sorted(names)) or 'none'}"
