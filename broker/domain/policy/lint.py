"""The rules that look at one version by itself.

| rule                  | refused when                                                                          |
|-----------------------|---------------------------------------------------------------------------------------|
| `scope.dead`          | a task grants a scope that no accepted input needs                                        |
| `scope.missing`       | an accepted input needs a scope that no task grants                                      |
| `argument.undeclared` | an argument that is a permission takes an attack of its kind, and nothing bounds it       |
| `argument.separator`  | a value that a scope names can be one that no scope can carry                              |
| `contract.anything`   | the contract accepts every object                                                       |

An answer that is unknown is a finding of `relation.undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.policy.facts import VersionFacts
from broker.domain.policy.findings import Finding, RuleId, Severity
from broker.domain.policy.permissions import DANGER
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.undecided import undecided
from broker.domain.schema.answers import No, Unknown, Yes
from broker.domain.schema.dialect import escape, unescape


def lint(
    facts: VersionFacts, tree: PolicyTree, *, out_of_reach_by_step: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """What is wrong with a version. `out_of_reach_by_step`: scopes that `lockstep.scope-kept` speaks of already."""
    if facts.anything:
        yield _anything(facts, tree)
    yield from _scopes(facts, tree, out_of_reach_by_step)
    yield from _exposed(facts, tree)
    yield from _carried(facts, tree)


def _scopes(facts: VersionFacts, tree: PolicyTree, spoken_of: frozenset[str]) -> Iterator[Finding]:
    version = facts.version
    for name, answer in facts.reach.items():
        pointer = f"/scopes/{escape(name)}"
        granted = name in facts.granted
        match answer:
            case Unknown():
                asked = f"whether an accepted input needs the scope {name}"
                yield undecided(version, tree, pointer=pointer, key=name, asked=asked, answer=answer)
            case No() if granted and name not in spoken_of:
                tasks = sorted(str(task.task) for task in version.tasks.values() if name in task.scopes)
                yield Finding(
                    rule=RuleId.SCOPE_DEAD,
                    severity=Severity.REFUSED,
                    tool=version.tool,
                    version=version.version,
                    key=name,
                    place=tree.place(version.tool, version.version, pointer),
                    what=f"the scope {name} is granted by {_listed('task', tasks)}, and no accepted input needs it",
                    why="least privilege: a right that no lawful call needs serves only calls that are not",
                    mend=f'take it out ("{name}": null where it is taken over), or mend its needed_when',
                    related=tuple(
                        (
                            tree.place(version.tool, version.version, f"/tasks/{escape(task)}/scopes/{escape(name)}"),
                            f"the task {task} grants it",
                        )
                        for task in tasks
                    ),
                )
            case Yes(witness) if not granted:
                yield Finding(
                    rule=RuleId.SCOPE_MISSING,
                    severity=Severity.REFUSED,
                    tool=version.tool,
                    version=version.version,
                    key=name,
                    place=tree.place(version.tool, version.version, pointer),
                    what=f"an accepted input needs the scope {name}, and no task grants it",
                    why="the contract invites calls that are then refused, each time",
                    mend="tighten the contract so that this input is refused, or let a task grant the scope",
                    witness=witness,
                    has_witness=True,
                    shows="accepted, and denied to everybody",
                )
            case _:
                pass


def _exposed(facts: VersionFacts, tree: PolicyTree) -> Iterator[Finding]:
    version = facts.version
    for one in facts.exposed:
        because = {"declared": "is declared as", "name": "is by its name", "use": "is by its description"}[one.because]
        contract = tree.contract_place(version.tool, version.version, _schema_pointer(facts, one.pointer))
        declared = one.because == "declared"
        within = ", within: [/srv/…]" if one.kind == "path" else ""
        yield Finding(
            rule=RuleId.ARGUMENT_UNDECLARED,
            severity=Severity.REFUSED,
            tool=version.tool,
            version=version.version,
            key=one.pointer,
            place=tree.place(version.tool, version.version, f"/arguments/{escape(one.pointer)}")
            if declared
            else contract,
            what=f'{one.pointer} {because} {_article(one.kind)}, and takes "{one.value}"',
            why="what it can reach is what the tool can reach: a permission that nothing bounds",
            mend=f"tighten its schema; or name it in a scope (…:{{{one.pointer}}}); or bound it under arguments: "
            f"{one.pointer}: {{kind: {one.kind}{within or ', enforced_by: [scope]'}}}",
            witness=one.witness,
            has_witness=True,
            shows="accepted",
            related=((contract, "the contract takes any such text"),) if declared else (),
        )
    for pointer, answer in facts.undecided_exposure:
        if isinstance(answer, Unknown):
            asked = f"whether {pointer} can be used to reach elsewhere"
            yield undecided(
                version, tree, pointer=f"/arguments/{escape(pointer)}", key=pointer, asked=asked, answer=answer
            )


def _carried(facts: VersionFacts, tree: PolicyTree) -> Iterator[Finding]:
    version = facts.version
    for one in facts.carried:
        pointer = f"/scopes/{escape(one.template)}"
        match one.answer:
            case Unknown():
                asked = f"whether {one.pointer} can hold what a scope cannot carry"
                key = f"{one.template} {one.pointer}"
                yield undecided(version, tree, pointer=pointer, key=key, asked=asked, answer=one.answer)
            case Yes(witness):
                yield Finding(
                    rule=RuleId.ARGUMENT_SEPARATOR,
                    severity=Severity.REFUSED,
                    tool=version.tool,
                    version=version.version,
                    key=one.template,
                    place=tree.place(version.tool, version.version, pointer),
                    what=f"the scope {one.template} names {one.pointer}, which can hold what no scope can carry",
                    why="a separator in a value would spell another scope, so such a call is accepted and then denied",
                    mend=f"give {one.pointer} a pattern without : * % spaces"
                    f"{' ' if _is_path(facts, one.pointer) else ' and / '}in the contract, such as ^[A-Za-z0-9._-]+$",
                    witness=witness,
                    has_witness=True,
                    shows="accepted, and no scope can name it",
                    related=(
                        (
                            tree.contract_place(version.tool, version.version, _schema_pointer(facts, one.pointer)),
                            "what the contract says of it",
                        ),
                    ),
                )
            case _:
                pass


def _anything(facts: VersionFacts, tree: PolicyTree) -> Finding:
    version = facts.version
    return Finding(
        rule=RuleId.CONTRACT_ANYTHING,
        severity=Severity.REFUSED,
        tool=version.tool,
        version=version.version,
        key="contract",
        place=tree.place(version.tool, version.version, "/contract"),
        what="the contract accepts every object: it lists no properties and closes nothing",
        why="a generator that has fallen over leaves such a schema; nobody can say what the tool takes",
        mend='list the properties; for a tool without arguments write {"type": "object", "additionalProperties": false}',
        witness={"anything": ["at", "all"]},
        has_witness=True,
        shows="accepted",
        related=((tree.contract_place(version.tool, version.version, "/inputSchema"), "the schema"),),
    )


def _schema_pointer(facts: VersionFacts, pointer: str) -> str:
    """Where the contract most likely describes an argument: as deep as its plain properties and items go."""
    found, node = "/inputSchema", facts.version.contract.input_schema
    for step in pointer.split("/")[1:]:
        items = node.get("items")
        if isinstance(items, dict) and "properties" not in node:
            found, node = f"{found}/items", items
        properties = node.get("properties")
        name = unescape(step)
        child = properties.get(name) if isinstance(properties, dict) else None
        if not isinstance(child, dict):
            break
        found, node = f"{found}/properties/{step}", child
    return found


def _is_path(facts: VersionFacts, pointer: str) -> bool:
    rule = facts.version.arguments.get(pointer)
    return rule is not None and rule.kind == "path"


def _article(kind: str) -> str:
    assert kind in DANGER
    return f"an {kind}" if kind == "identifier" else "a URL" if kind == "url" else f"a {kind}"


def _listed(noun: str, names: list[str]) -> str:
    return f"the {noun}{'s' if len(names) > 1 else ''} {', '.join(names)}"
