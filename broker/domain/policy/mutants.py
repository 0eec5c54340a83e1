"""Mutants of a version: one rule of it dropped, widened or narrowed. A test that does not notice does not test that rule.

| of             | operators                                                                                          |
|----------------|----------------------------------------------------------------------------------------------------|
| who            | everybody is let in; a claim is no longer asked for, or any value of it will do; any client will do;   |
|                | one value or one client is shut out                                                                |
| what           | a scope of the version more, a granted scope less; a `needed_when` that always holds, or never          |
| which argument | the roots dropped, one root widened to what is above it, one dropped; a template that names nothing     |
| how long       | the longest life there is; uses that nobody counts                                                   |
| the contract   | one constraint dropped (`_CONSTRAINTS`), one required property, one word of an `enum`; at arguments that    |
|                | are permissions, or that a scope or its `needed_when` names: the rest is the tool's own business          |

What a mutant changes about the facts of an argument object is known beforehand, but for the contract's: those are asked for
anew (`recompile`). `pointer` leads into the version, or into its contract where `in_contract`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract import ToolContract
from broker.domain.ids import Digest, TaskName
from broker.domain.policy.document import ArgumentFacts, ArgumentRule, Policy, ScopeRule, TaskRule, VersionPolicy
from broker.domain.policy.permissions import permission_arguments
from broker.domain.policy.roots import normalise_root
from broker.domain.schema.dialect import escape, subschemas, unescape
from broker.domain.scopes import within_patterns

_CONSTRAINTS: Final = (
    "pattern", "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "not", "dependentRequired", "contains", "propertyNames", "if",
)  # fmt: skip
_LENGTHS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LONGEST: Final = 64  # nobody writes a test case of thousands of characters
_MAX_OF_CONTRACT: Final = 400


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed version.

    operator: what kind of change, stable. words: what is different, for people.
    task:     the task it is about, where it is about one. scope: the template it is about, where it is about one.
    always, never: the template that every input, or none, needs now. renamed: a template and what it is called now.
    """

    operator: str
    pointer: str
    words: str
    version: VersionPolicy
    task: TaskName | None = None
    scope: str | None = None
    argument: str | None = None
    always: str | None = None
    never: str | None = None
    renamed: tuple[str, str] | None = None
    recompile: bool = False
    in_contract: bool = False


def facts_under(mutant: Mutant, facts: ArgumentFacts) -> ArgumentFacts:
    """The facts about an argument object under a mutant whose contract is the same."""
    if not facts.valid:
        return facts
    needed = facts.needed
    if mutant.always is not None:
        needed = needed | {mutant.always}
    if mutant.never is not None:
        needed = needed - {mutant.never}
    if mutant.renamed is not None and mutant.renamed[0] in needed:
        needed = (needed - {mutant.renamed[0]}) | {mutant.renamed[1]}
    return replace(facts, needed=needed)


def mutants(version: VersionPolicy, policy: Policy, known_claims: Mapping[str, frozenset[str]]) -> Iterator[Mutant]:
    """Every mutant of a version, in the order of the table. known_claims: the values that policy and tests speak of."""
    for task in version.tasks.values():
        yield from _who(version, task, policy, known_claims)
    for task in version.tasks.values():
        yield from _what(version, task)
    for scope in version.scopes.values():
        yield from _when(version, scope)
    for argument in version.arguments.values():
        yield from _roots(version, argument)
    for scope in version.scopes.values():
        if scope.placeholders:
            yield _unbound(version, scope)
    for task in version.tasks.values():
        yield from _how_long(version, task, policy.defaults.max_ttl_seconds)
    for count, mutant in enumerate(_contract(version)):
        if count == _MAX_OF_CONTRACT:
            return
        yield mutant


def _with_task(version: VersionPolicy, task: TaskRule) -> VersionPolicy:
    return replace(version, tasks={**version.tasks, task.task: task})


def _who(
    version: VersionPolicy, task: TaskRule, policy: Policy, known: Mapping[str, frozenset[str]]
) -> Iterator[Mutant]:
    everybody = tuple(name for name, client in policy.clients.items() if within_patterns(version.tool, client.tools))
    at = f"/tasks/{escape(task.task)}/allow"

    def made(operator: str, pointer: str, words: str, changed: TaskRule) -> Mutant:
        return Mutant(operator, pointer, words, _with_task(version, changed), task=task.task)

    if everybody and (set(everybody) - set(task.clients) or task.claims):
        words = f"{task.task} is open to everybody"
        yield made("allow.everybody", at, words, replace(task, clients=everybody, claims={}))
    for name, values in task.claims.items():
        place = f"{at}/claims/{escape(name)}"
        if task.clients or len(task.claims) > 1:
            rest = {key: value for key, value in task.claims.items() if key != name}
            words = f"{task.task} no longer asks for {name}"
            yield made("allow.claim-dropped", place, words, replace(task, claims=rest))
        others = tuple(sorted(known.get(name, frozenset()).difference(values)))
        if others:
            wider = {**task.claims, name: (*values, *others)}
            words = f"{task.task} takes any {name}"
            yield made("allow.claim-widened", place, words, replace(task, claims=wider))
        for value in values if len(values) > 1 else ():
            fewer = {**task.claims, name: tuple(one for one in values if one != value)}
            words = f"{task.task} no longer lets {name} {value} in"
            yield made("allow.value-dropped", f"{place}/{escape(value)}", words, replace(task, claims=fewer))
    if task.clients and task.claims and set(everybody) - set(task.clients):
        words = f"{task.task} is open to any client"
        yield made("allow.clients-widened", f"{at}/clients", words, replace(task, clients=()))
    for client in task.clients if len(task.clients) > 1 else ():
        rest_of = tuple(one for one in task.clients if one != client)
        words = f"{task.task} no longer lets the client {client} in"
        yield made("allow.client-dropped", f"{at}/clients/{escape(client)}", words, replace(task, clients=rest_of))
    if not task.claims and not task.clients:
        return
    yield made("allow.nobody", at, f"{task.task} is open to nobody", replace(task, clients=(), claims={}))


def _what(version: VersionPolicy, task: TaskRule) -> Iterator[Mutant]:
    at = f"/tasks/{escape(task.task)}/scopes"
    for template in version.scopes:
        if template in task.scopes:
            rest = tuple(one for one in task.scopes if one != template)
            made = _with_task(version, replace(task, scopes=rest))
            words = f"{task.task} does not grant {template}"
            yield Mutant("scope.removed", f"{at}/{escape(template)}", words, made, task=task.task, scope=template)
        else:
            made = _with_task(version, replace(task, scopes=(*task.scopes, template)))
            words = f"{task.task} grants {template} too"
            yield Mutant("scope.added", at, words, made, task=task.task, scope=template)


def _when(version: VersionPolicy, scope: ScopeRule) -> Iterator[Mutant]:
    at, template = f"/scopes/{escape(scope.template)}/needed_when", scope.template
    if scope.needed_when is not True:
        words = f"every input needs {template}"
        yield Mutant("needed.always", at, words, version, scope=template, always=template)
    if scope.needed_when is not False:
        words = f"no input needs {template}"
        yield Mutant("needed.never", at, words, version, scope=template, never=template)


def _roots(version: VersionPolicy, argument: ArgumentRule) -> Iterator[Mutant]:
    if not argument.within:
        return
    pointer = argument.pointer
    at = f"/arguments/{escape(pointer)}/within"

    def made(operator: str, place: str, words: str, roots: tuple[str, ...]) -> Mutant:
        changed = {**version.arguments, pointer: replace(argument, within=roots)}
        return Mutant(operator, place, words, replace(version, arguments=changed), argument=pointer)

    yield made("roots.dropped", at, f"{pointer} may lead anywhere", ())
    for root in argument.within:
        above = _above(argument.kind, root)
        rest = tuple(one for one in argument.within if one != root)
        if above is not None:
            yield made("root.widened", f"{at}/{escape(root)}", f"{pointer} may lie under {above}", (*rest, above))
        if rest:
            yield made("root.dropped", f"{at}/{escape(root)}", f"{pointer} may not lie under {root}", rest)


def _above(kind: str, root: str) -> str | None:
    """The next wider root; None where there is none."""
    if kind == "host":
        name = root.removeprefix("*.")
        above = name if root == name else name.partition(".")[2]
        return normalise_root("host", f"*.{above}") if above.count(".") or above == "localhost" else None
    head, _, last = root.rpartition("/")
    if not last or (kind == "url" and head.count("/") < 2):
        return None
    return normalise_root(kind, head or "/")


def _unbound(version: VersionPolicy, scope: ScopeRule) -> Mutant:
    """A template whose last placeholder is dropped, so that the scope names less."""
    old = scope.template
    new = (
        old[: old.rindex("{")].rstrip(":") if old.endswith("}") else old.replace(f"{{{scope.placeholders[-1]}}}", "all")
    )
    scopes = {name: rule for name, rule in version.scopes.items() if name != old}
    scopes[new] = replace(scope, template=new, placeholders=scope.placeholders[:-1])
    tasks = {
        name: replace(task, scopes=tuple(new if one == old else one for one in task.scopes))
        for name, task in version.tasks.items()
    }
    words = f"the scope {old} is just {new}"
    made = replace(version, scopes=scopes, tasks=tasks)
    return Mutant("template.unbound", f"/scopes/{escape(old)}", words, made, scope=old, renamed=(old, new))


def _how_long(version: VersionPolicy, task: TaskRule, longest: int) -> Iterator[Mutant]:
    at = f"/tasks/{escape(task.task)}"
    if task.ttl_seconds < longest:
        made = _with_task(version, replace(task, ttl_seconds=longest))
        yield Mutant("ttl.raised", f"{at}/ttl", f"a credential for {task.task} lives {longest} s", made, task=task.task)
    if task.uses is not None:
        made = _with_task(version, replace(task, uses=None))
        yield Mutant("uses.dropped", f"{at}/uses", f"nobody counts the uses for {task.task}", made, task=task.task)


# The contract


def _contract(version: VersionPolicy) -> Iterator[Mutant]:
    schema = version.contract.input_schema
    deciding = _deciding(version)
    for number, (operator, pointer, words, changed) in enumerate(_schemas(schema, "")):
        assert isinstance(changed, dict)
        if not _bears_on(pointer, schema, deciding):
            continue
        members: JsonObject = {**version.contract.members, "inputSchema": changed}
        contract = ToolContract(version.contract.name, members, version.contract.digest)
        yield Mutant(
            operator,
            f"/inputSchema{pointer}",
            words,
            # matchers are remembered by digest; this is no digest of anything, so it is nobody else's
            replace(version, contract=contract, digest=Digest(f"{version.digest}#{number}")),
            recompile=True,
            in_contract=True,
        )


def _deciding(version: VersionPolicy) -> frozenset[str]:
    """The arguments, at the root, that are permissions or that a scope or its condition names."""
    pointers = [argument.pointer for argument in permission_arguments(version)]
    pointers += [pointer for rule in version.scopes.values() for pointer in rule.placeholders]
    names = {unescape(pointer.split("/")[1]) for pointer in pointers}
    pending: list[JsonValue] = [rule.needed_when for rule in version.scopes.values()]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        properties, required = node.get("properties"), node.get("required")
        names.update(properties if isinstance(properties, dict) else ())
        names.update(str(name) for name in (required if isinstance(required, list) else ()))
        # only what speaks of the same object: the properties inside a property are not arguments at the root
        pending += [child for below, child in subschemas(node) if not below.startswith("/properties/")]
    return frozenset(names)


def _bears_on(pointer: str, schema: JsonObject, deciding: frozenset[str]) -> bool:
    steps = [unescape(step) for step in pointer.split("/")[1:]]
    if steps[0] == "properties":
        return steps[1] in deciding
    listed = schema.get("required")
    if steps[0] == "required" and isinstance(listed, list):
        return len(steps) > 1 and listed[int(steps[1])] in deciding
    return True


def _schemas(node: JsonValue, pointer: str) -> Iterator[tuple[str, str, str, JsonValue]]:
    """Every schema that differs from this one by one constraint: operator, where, what, and the whole of it."""
    if not isinstance(node, dict):
        return
    place = pointer or "/"
    for keyword in _CONSTRAINTS:
        if keyword in node and not (keyword in _LENGTHS and _is_long(node[keyword])):
            rest = {name: value for name, value in node.items() if name != keyword}
            yield "contract.dropped", f"{pointer}/{keyword}", f"{keyword} is dropped at {place}", rest
    listed, words = node.get("required"), node.get("enum")
    required = listed if isinstance(listed, list) else []
    for index, name in enumerate(required):
        fewer: JsonObject = {**node, "required": [one for one in required if one != name]}
        yield "contract.optional", f"{pointer}/required/{index}", f"{name} may be left out at {place}", fewer
    if isinstance(words, list) and len(words) > 1:
        for index, word in enumerate(words):
            fewer = {**node, "enum": [*words[:index], *words[index + 1 :]]}
            yield "contract.word", f"{pointer}/enum/{index}", f"{_shown(word)} is no choice at {place}", fewer
    for below, child in subschemas(node):
        for operator, where, what, changed in _schemas(child, f"{pointer}{below}"):
            yield operator, where, what, _put(node, below, changed)


def _put(node: JsonObject, below: str, changed: JsonValue) -> JsonObject:
    """The schema with one of its direct subschemas exchanged; `below` is one or two steps."""
    keyword, _, rest = below[1:].partition("/")
    if not rest:
        return {**node, keyword: changed}
    inner = node[keyword]
    if isinstance(inner, list):
        return {**node, keyword: [changed if str(index) == rest else one for index, one in enumerate(inner)]}
    assert isinstance(inner, dict)
    return {**node, keyword: {**inner, unescape(rest): changed}}


def _is_long(bound: JsonValue) -> bool:
    return isinstance(bound, int | float) and bound > _LONGEST


def _shown(word: JsonValue) -> str:
    return str(word)[:60] if isinstance(word, str | int | float | bool) else "a value"
