"""A whole policy from its files, already read as located nodes. Every problem of every file is collected.

1. `trust.yaml` first: tools are checked against whom it knows. A tool that it names for a client has a file.
2. Each tool file is named for its tool, and no tool has two files.
3. Test files have their form; what they say is checked where policies are tested.
4. A policy comes out only where no problem was found at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from broker.domain.canonical import JsonError
from broker.domain.ids import ToolName
from broker.domain.policy.cases import PolicyCase, parse_cases
from broker.domain.policy.document import Policy, ToolPolicy
from broker.domain.policy.exceptions import PolicyException, parse_exceptions
from broker.domain.policy.form import EXCEPTIONS_FILE, TEST_FILE
from broker.domain.policy.grant import policy_digest
from broker.domain.policy.located import Located, Problem, Problems
from broker.domain.policy.parse_tool import parse_tool
from broker.domain.policy.parse_trust import parse_trust
from broker.domain.policy.shape import conform


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """What was found in a policy folder.

    base:      the folder, absolute; relative key files are below it.
    trust:     the root of `trust.yaml`; None where it is absent or could not be read at all.
    tools:     by file name, the root of each tool file.
    tests:     by file name, the root of each test file.
    contracts: by name relative to the folder, the bytes of each contract file.
    exceptions: the root of `exceptions.yaml`; None where there is none.
    """

    base: str
    trust: Located | None
    tools: Mapping[str, Located]
    tests: Mapping[str, Located]
    contracts: Mapping[str, bytes]
    exceptions: Located | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """The policy, present where nothing was wrong so far, and the key files that must be there for it to be of use."""

    policy: Policy | None
    tools: Mapping[ToolName, ToolPolicy]
    key_files: tuple[tuple[str, Located], ...]
    tests: Mapping[ToolName, Located]
    cases: Mapping[ToolName, tuple[PolicyCase, ...]]
    exceptions: tuple[PolicyException, ...]


def parse_policy(files: PolicyFiles, problems: Problems) -> Parsed:
    """Read a policy; whatever is wrong goes to `problems`."""
    nowhere = Located({}, "trust.yaml", 0, 0, "")
    unread = Problems()
    # Without trust.yaml its own absence is the problem; the names that tools use are then not held against them.
    trust = parse_trust(files.trust or nowhere, base=files.base, problems=problems if files.trust else unread)
    tools: dict[ToolName, ToolPolicy] = {}
    for name, root in sorted(files.tools.items()):
        found = problems if files.trust else Problems()
        tool = parse_tool(root, trust=trust, contracts=files.contracts, problems=found)
        if not files.trust:
            _add(problems, [one for one in found.found if one.rule not in ("client.unknown", "claim.unknown")])
        if tool is None:
            continue
        if name != f"{tool.tool}.yaml":
            message = f"the file of {tool.tool} is called {name}"
            problems.report(root, "file.name", message, mend=f"call it {tool.tool}.yaml")
        if tool.tool in tools:
            problems.report(root, "file.name", f"{tool.tool} has a file already", mend="keep one of them")
        tools[tool.tool] = tool
    if files.trust:
        _check_client_tools(files.trust, files.tools, problems)
    tests, cases = _parse_tests(files.tests, problems)
    exceptions = conform(EXCEPTIONS_FILE, files.exceptions, problems) if files.exceptions is not None else None
    if not files.tools:
        place = Located(None, files.base, 0, 0, "")
        problems.report(place, "file.missing", "there is no tool file", mend="add one, such as db.query.yaml")
    policy = None
    if not problems.found and files.trust is not None:
        try:
            policy = Policy(
                tenant=trust.tenant,
                lockstep=trust.lockstep,
                issuers=trust.issuers,
                clients=trust.clients,
                admins=trust.admins,
                defaults=trust.defaults,
                tools=tools,
                digest=policy_digest(
                    base=files.base,
                    tenant=trust.tenant,
                    lockstep=trust.lockstep,
                    issuers=trust.issuers.values(),
                    clients=trust.clients.values(),
                    admins=trust.admins.values(),
                    defaults=trust.defaults,
                    tools=tools.values(),
                ),
            )
        except JsonError as error:  # pragma: no cover - numbers were bounded when the files were read
            problems.report(nowhere, "field.value", str(error), mend="mend the number")
    return Parsed(
        policy=policy,
        tools=tools,
        key_files=trust.key_files,
        tests=tests,
        cases=cases,
        exceptions=parse_exceptions(exceptions) if exceptions is not None else (),
    )


def _parse_tests(
    files: Mapping[str, Located], problems: Problems
) -> tuple[dict[ToolName, Located], dict[ToolName, tuple[PolicyCase, ...]]]:
    roots: dict[ToolName, Located] = {}
    cases: dict[ToolName, tuple[PolicyCase, ...]] = {}
    for _, root in sorted(files.items()):
        node = conform(TEST_FILE, root, problems)
        tool = ToolName(node.text("tool") or "")
        roots.setdefault(tool, node)
        cases[tool] = (*cases.get(tool, ()), *parse_cases(node))
    return roots, cases


def _check_client_tools(trust: Located, tools: Mapping[str, Located], problems: Problems) -> None:
    known = sorted(name.removesuffix(".yaml") for name in tools)
    for _, client in trust.children("clients"):
        listed = client.get("tools")
        for item in listed.items() if listed is not None else ():
            if isinstance(item.value, str) and "*" not in item.value and item.value not in known:
                near = get_close_matches(item.value, known, 1, 0.6)
                mend = f"did you mean {near[0]}?" if near else f"tools here: {', '.join(known) or 'none'}"
                problems.report(item, "tool.unknown", f"there is no file {item.value[:80]}.yaml", mend=mend)


def _add(problems: Problems, found: list[Problem]) -> None:
    for problem in found:
        problems.add(problem)
