"""A policy begins with what a server lists: it loads, it lets nobody in, and nothing a server says gets out of a comment."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from broker.adapters.policyfile.beginning import existing_trust, existing_versions, write_files
from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.app.arguments import CompiledArguments
from broker.cli.policy_init import _unusable
from broker.domain.contracts.contract import parse_contract
from broker.domain.errors import ConfigurationError
from broker.domain.policy.decide import tasks_for
from broker.domain.policy.skeleton import parse_listing
from broker.domain.policy.trials import Status, request_of
from broker.services.beginning import Beginning, Folder, Wanted, begin
from broker.services.checking import PolicyChecker
from broker.services.policy_test import PolicyTester

SHARED = Path(__file__).parents[4] / "shared" / "data" / "mcp_contracts.jsonl"


def tool(name="files.read", **members):
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"name": name, "description": "Reads a file.", "inputSchema": schema, **members}


def begun(folder: Path, listed, **wanted) -> Beginning:
    made = begin(
        listed, Folder(existing_trust(folder), existing_versions(folder)), Wanted(**wanted), unusable=_unusable
    )
    write_files(folder, made.files, force=wanted.get("force", False))
    return made


def test_what_is_begun_loads_and_lets_nobody_in(tmp_path):
    begun(tmp_path, [tool()])
    tree = load_tree(tmp_path, with_keys=False)
    version = tree.policy.tools["files.read"].versions["1"]
    (case,) = tree.cases["files.read"]
    assert version.contract.digest == parse_contract(tool()).digest
    assert tasks_for(version, request_of(case).principal) == ()
    (result,) = PolicyTester(CompiledArguments()).run(tree, mutations=False).results
    assert (result.status, result.outcome.reason) == (Status.OK, "task_not_allowed")


def test_an_argument_that_can_be_a_permission_is_marked_and_its_proposal_loads_when_taken(tmp_path):
    begun(tmp_path, [tool()])
    file = tmp_path / "files.read.yaml"
    text = file.read_text()
    assert '#   "/path": {kind: path, within: [/srv/decide]} # by its name' in text
    taken = re.sub(r"(?m)^    # (arguments:|  \"/path\".*)$", r"    \1", text)
    assert taken != text
    file.write_text(taken)
    version = load_tree(tmp_path, with_keys=False).policy.tools["files.read"].versions["1"]
    assert version.arguments["/path"].within == ("/srv/decide",)


def test_check_asks_for_decisions_alone(tmp_path):
    begun(tmp_path, [tool()])
    arithmetic = open_arithmetic(None)
    report = PolicyChecker(arithmetic).check(load_tree(tmp_path, with_keys=False), base=None, today="2027-01-01")
    arithmetic.close()
    assert sorted((finding.rule, finding.key) for finding in report.findings) == [
        ("argument.undeclared", "/path"),
        ("test.missing", "permit"),
    ]


@pytest.mark.parametrize(
    ("annotations", "name", "scope"),
    [
        ({"readOnlyHint": True}, "files.write", "files.write:read"),
        ({"destructiveHint": True}, "files.put", "files.put:write"),
        ({}, "list_files", "list_files:read"),
        ({"readOnlyHint": True}, "delete_file", "delete_file:delete"),
        ({}, "sync", "sync:write"),
        ({"readOnlyHint": False}, "get_and_set", "get_and_set:write"),
    ],
)
def test_a_scope_is_proposed_from_hints_and_name_and_the_graver_one_counts(tmp_path, annotations, name, scope):
    begun(tmp_path, [tool(name, annotations=annotations)])
    version = load_tree(tmp_path, with_keys=False).policy.tools[name].versions["1"]
    assert list(version.scopes) == [scope]


HOSTILE = [
    "x\ntasks: {all: {allow: {clients: [mcp-server]}}}",
    "x\r\nversions:",
    "x\u2028tool: other",
    "x\x85tool: other",
    "x # decide: done\n    tasks: {}",
    'x": {kind: path}}\n"',
    "\u202epath",
    "{/path}",
    "path" * 500,
]


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_a_server_says_leaves_its_comment(tmp_path, said):
    schema = {
        "type": "object",
        "properties": {
            said: {"type": "string", "description": "the file path of the file"},
            f"{said}_path": {"type": "string"},
        },
        "required": [said],
    }
    listed = [tool("plain", inputSchema=schema, description=said, title=said, annotations={"title": said})]
    begun(tmp_path, listed)
    tree = load_tree(tmp_path, with_keys=False)
    version = tree.policy.tools["plain"].versions["1"]
    assert list(version.tasks) == ["use"]
    assert (version.tasks["use"].clients, version.tasks["use"].claims) == ((), {})
    assert version.arguments == {}
    assert len(tree.cases["plain"]) == 1
    assert version.contract.digest == parse_contract(listed[0]).digest


@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        (tool("trust"), "trust", "trust.yaml says something else"),
        (tool("Exceptions"), "Exceptions", "Exceptions.yaml says something else"),
        (tool(".hidden"), ".hidden", "begin with a dot"),
        (tool(".."), "..", "begin with a dot"),
        (tool("a/b"), "a/b", "/name"),
        (tool("../../etc/cron.d/x"), "../../etc/cron.d/x", "/name"),
        (tool("a\nb"), "a b", "/name"),
        (tool(inputSchema={}), "files.read", "/inputSchema"),
        (
            tool(inputSchema={"type": "object", "properties": {"a": {"pattern": "("}}}),
            "files.read",
            "/inputSchema/properties/a",
        ),
        (tool(inputSchema={"type": "object", "$ref": "https://elsewhere.example/x"}), "files.read", "/inputSchema"),
        (tool(description=5), "files.read", "/description"),
        (tool(description="a\ud800b"), "files.read", ""),
        (tool(description="x" * 1_100_000), "files.read", "bytes"),
        ("a tool", "a tool without a name", "an object was expected"),
        ({"inputSchema": {"type": "object"}}, "a tool without a name", "/name"),
    ],
)
def test_a_tool_that_gets_no_files_is_named_with_the_reason(tmp_path, value, name, why):
    made = begun(tmp_path, [value, tool("other")])
    assert [one.name for one in made.passed] == [name]
    assert why in made.passed[0].why
    assert made.begun == ("other",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contracts", "other.yaml", "tests", "trust.yaml"]


def test_names_that_some_machines_take_for_one_get_one_file(tmp_path):
    made = begun(tmp_path, [tool("Read"), tool("read"), tool("Read")])
    assert [(one.name, one.why[:9]) for one in made.passed] == [("read", "on some m"), ("Read", "it is lis")]


def test_the_version_that_a_listing_names_is_the_version(tmp_path):
    begun(
        tmp_path,
        [
            tool("ours", _meta={"io.github.mayfly-broker/version": "4", "fastmcp": {"version": "7"}}),
            tool("theirs", _meta={"fastmcp": {"version": "1.10"}}),
            tool("odd", _meta={"fastmcp": {"version": "../x"}}),
            tool("dotted", _meta={"fastmcp": {"version": ".1"}}),
        ],
    )
    tools = load_tree(tmp_path, with_keys=False).policy.tools
    assert {name: list(found.versions) for name, found in tools.items()} == {
        "ours": ["4"],
        "theirs": ["1.10"],
        "odd": ["1"],
        "dotted": ["1"],
    }


def test_what_a_listing_added_is_undone(tmp_path):
    meta = {"io.github.mayfly-broker/tool": "files.read", "io.github.mayfly-broker/version": "2"}
    listed = tool("files.read_v2", description="Reads a file.\n\n[Deprecated] until 2027-12-01", _meta=meta, icons=[])
    begun(tmp_path, [{**listed, "title": None, "outputSchema": None}])
    version = load_tree(tmp_path, with_keys=False).policy.tools["files.read"].versions["2"]
    assert version.contract.digest == parse_contract(tool()).digest


def test_a_tool_that_has_a_file_gets_its_new_contract_and_the_lines_to_add(tmp_path):
    begun(tmp_path, [tool()])
    before = (tmp_path / "files.read.yaml").read_text()
    made = begun(tmp_path, [tool(description="Reads one file.")])
    assert (tmp_path / "files.read.yaml").read_text() == before
    (addition,) = made.stanzas
    (tmp_path / "files.read.yaml").write_text(before + addition.text)
    versions = load_tree(tmp_path, with_keys=False).policy.tools["files.read"].versions
    assert list(versions) == ["1", "2"]
    assert versions["2"].replaces == "1"
    assert versions["2"].contract.members["description"] == "Reads one file."


def test_a_tool_whose_contract_is_there_is_left_alone(tmp_path):
    begun(tmp_path, [tool()])
    made = begun(tmp_path, [tool()])
    assert (made.unchanged, made.files, made.stanzas) == (("files.read",), {}, ())


def test_nothing_is_overwritten_and_then_nothing_is_written_at_all(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "files.read.yaml").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"tests/files\.read\.yaml would be overwritten; --force does that"):
        begun(tmp_path, [tool(), tool("other")])
    assert [path.name for path in tmp_path.iterdir()] == ["tests"]
    begun(tmp_path, [tool(), tool("other")], force=True)
    load_tree(tmp_path, with_keys=False)


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "elsewhere.json"
    target.write_text("mine")
    folder = tmp_path / "policies"
    (folder / "contracts" / "files.read").mkdir(parents=True)
    (folder / "contracts" / "files.read" / "1.json").symlink_to(target)
    with pytest.raises(ConfigurationError):
        begun(folder, [tool()])
    begun(folder, [tool()], force=True)
    assert target.read_text() == "mine"


def test_trust_that_is_there_is_kept_and_its_own_parties_stand_in_the_test(tmp_path):
    begun(tmp_path, [tool()])
    before = (tmp_path / "trust.yaml").read_text().replace("mcp-server", "our-server")
    (tmp_path / "trust.yaml").write_text(before)
    (tmp_path / "tests" / "files.read.yaml").unlink()
    made = begun(tmp_path, [tool("other")], force=True)
    assert (tmp_path / "trust.yaml").read_text() == before
    assert made.uncovered == ("other",)
    tree = load_tree(tmp_path, with_keys=False)
    (result,) = PolicyTester(CompiledArguments()).run(tree, mutations=False).results
    assert (result.case.client, result.outcome.reason) == ("our-server", "client_not_permitted")


def test_only_the_wanted_tools_are_begun(tmp_path):
    made = begun(tmp_path, [tool("files.read"), tool("files.write"), tool("db.query")], patterns=("files.*",))
    assert made.begun == ("files.read", "files.write")


@pytest.mark.parametrize(
    "saved",
    [
        [tool()],
        {"tools": [tool()]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool()], "resultType": "complete"}},
    ],
)
def test_a_saved_list_is_read_in_each_of_its_forms(saved):
    assert parse_listing(saved) == [tool()]


@pytest.mark.parametrize("saved", [5, "x", {}, {"result": {}}, {"tools": {}}, {"tools": [], "nextCursor": "2"}])
def test_what_is_no_list_or_only_a_part_of_one_is_refused(saved):
    assert isinstance(parse_listing(saved), str)


@pytest.mark.shared
def test_every_real_contract_begins_a_policy_that_check_only_wants_decisions_for(tmp_path):
    if not SHARED.exists():
        pytest.skip(f"{SHARED.parent.name}: shared/data is not here")
    listed = [json.loads(line)["contract"] for line in SHARED.read_text().splitlines()]
    assert len(listed) == 548
    made = begun(tmp_path, listed)
    assert len(made.begun) + len(made.passed) == 548
    whys = {one.why for one in made.passed}
    assert whys == {"it is listed twice", '/inputSchema: an object with "type": "object" was expected'}
    tree = load_tree(tmp_path, with_keys=False)
    assert len(tree.policy.tools) == len(made.begun) > 500
    assert {one.status for one in PolicyTester(CompiledArguments()).run(tree, mutations=False).results} == {Status.OK}
    arithmetic = open_arithmetic(None)
    checker = PolicyChecker(arithmetic)
    found = {
        (finding.rule, finding.key if finding.rule == "test.missing" else "")
        for policy in tree.policy.tools.values()
        for version in policy.versions.values()
        for finding in checker.check_version(tree, version, old=None)
    }
    arithmetic.close()
    assert found == {("argument.undeclared", ""), ("test.missing", "permit")}
