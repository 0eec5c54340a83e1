"""A folder of policy files is a whole lawful policy, or every problem of it at its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import PolicyFolder, load_policy
from broker.domain.policy.document import ClaimNames, KeySource
from broker.domain.policy.located import PolicyInvalidError


def test_the_shipped_policy_is_lawful(tree):
    policy = tree.load()
    assert sorted(policy.tools) == [
        "db.query",
        "files.read",
        "files.write",
        "k8s.exec",
        "payments.refund",
        "repo.open_change",
    ]
    assert policy.tenant == "default"
    assert policy.lockstep == "strict"
    assert (policy.defaults.ttl_seconds, policy.defaults.max_ttl_seconds, policy.defaults.leeway_seconds) == (
        60,
        300,
        10,
    )


def test_trust_is_read_as_written(tree):
    policy = tree.load()
    issuer = policy.issuers["http://127.0.0.1:8421"]
    assert issuer.jwks == KeySource(url="http://127.0.0.1:8421/jwks.json")
    assert issuer.algorithms == ("ES256", "RS256")
    assert issuer.types == ("at+jwt",)
    assert issuer.claims == ClaimNames(account="sub", agent="azp", others={"groups": "groups"})
    assert issuer.ceiling.scopes == ("db:*", "files:*", "repo:*", "payments:*", "k8s:*")
    assert issuer.max_lifetime_seconds == 43200
    client = policy.clients["reporting-mcp"]
    assert client.jwks == KeySource(file=str(tree.folder / "keys/reporting-mcp.json"))
    assert client.may == {"exchange", "introspect", "report"}
    assert policy.admins["rollout-bot"].may == {"canary", "promote", "rollback"}


def test_a_version_takes_over_what_it_does_not_restate(tree):
    versions = tree.load().tools["db.query"].versions
    assert set(versions["3"].tasks) == {"report", "migrate"}
    assert set(versions["4"].tasks) == {"report"}
    assert set(versions["4"].scopes) == {"db:read"}
    assert versions["4"].tasks["report"] == versions["3"].tasks["report"]
    assert versions["4"].contract.digest != versions["3"].contract.digest
    assert versions["4"].replaces == "3"
    assert versions["3"].replaces is None


def test_the_digest_is_the_same_in_another_folder_and_another_for_other_rules(tree, tmp_path):
    before = tree.load().digest
    moved = tmp_path / "elsewhere"
    tree.folder.rename(moved)
    assert load_policy(moved).digest == before
    moved.rename(tree.folder)
    tree.edit("db.query.yaml", "ttl: 60s", "ttl: 59s")
    assert tree.load().digest != before


def test_owners_decide_nothing(tree):
    before = tree.load().digest
    tree.edit("db.query.yaml", "owners: [data-platform]", "owners: [somebody-else]")
    assert tree.load().digest == before


def test_all_problems_of_all_files_come_at_once(tree):
    tree.edit("db.query.yaml", "ttl: 60s", "ttl: 60")
    tree.edit("db.query.yaml", "needed_when: true", "needed_when: yes")
    tree.edit("files.read.yaml", "kind: path", "kind: pathh")
    tree.edit("trust.yaml", "lockstep: strict", "lockstep: loose")
    tree.edit("tests/db.query.yaml", "refuse: task_missing", "refused: task_missing")
    assert {(problem.file, problem.rule) for problem in tree.problems()} == {
        ("db.query.yaml", "field.type"),
        ("db.query.yaml", "yaml.ambiguous"),
        ("files.read.yaml", "field.value"),
        ("trust.yaml", "field.value"),
        ("tests/db.query.yaml", "field.unknown"),
        ("tests/db.query.yaml", "field.missing"),
    }


def test_a_problem_shows_file_line_column_and_a_caret(tree):
    tree.edit("db.query.yaml", "        ttl: 60s", "        ttll: 60s")
    problem = tree.the_problem("field.unknown")
    line = tree.line_of("db.query.yaml", "ttll")
    assert (problem.file, problem.line, problem.column) == ("db.query.yaml", line, 9)
    assert problem.pointer == "/versions/3/tasks/report/ttll"
    assert str(problem).split("\n") == [
        f"db.query.yaml:{line}:9: field.unknown: the key 'ttll' is not known here",
        f"  {line} |         ttll: 60s",
        f"  {' ' * len(str(line))} |         ^",
        "  mend: did you mean ttl?",
    ]


def test_a_version_that_is_not_quoted_says_quote_it(tree):
    tree.edit("db.query.yaml", '  "4":', "  4:")
    problem = tree.the_problem("yaml.key")
    assert problem.line == tree.line_of("db.query.yaml", "  4:")
    assert problem.mend == 'quote it: "4"'


def test_a_digest_of_another_contract_names_both(tree):
    contract = tree.load().tools["files.read"].versions["1"].contract
    other = "sha256:" + "0" * 64
    tree.edit("files.read.yaml", contract.digest, other)
    problem = tree.the_problem("version.digest")
    assert other in problem.message
    assert contract.digest in problem.message
    assert problem.line == tree.line_of("files.read.yaml", "digest:")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"name": "files.read", "name": "x"}', "twice"),
        ('{"name": "db.query", "inputSchema": {"type": "object"}}', "contract of db.query"),
        ('{"name": "files.read"}', "/inputSchema"),
        ("[1", "is no contract"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_contract_file_that_is_none_is_named(tree, content, says):
    tree.write("contracts/files.read/1.json", content)
    assert says in tree.the_problem("version.contract").message


def test_a_contract_that_leads_outside_itself_is_refused(tree):
    tree.edit(
        "contracts/files.read/1.json",
        '"required": ["path"],',
        '"required": ["path"], "allOf": [{"$ref": "file:///etc/passwd"}],',
    )
    assert "version.digest" in tree.rules()
    assert "/inputSchema" in next(one for one in tree.problems() if one.rule == "schema.unusable").message


def test_a_condition_that_is_no_schema_is_refused_at_its_place(tree):
    tree.edit("db.query.yaml", "properties: {mode: {const: write}}", "properties: {mode: {type: wrong}}")
    problem = next(one for one in tree.problems() if one.rule == "schema.unusable")
    assert problem.message.startswith("/scopes/db:write/needed_when/properties/mode/type")
    assert problem.pointer == "/versions/3/scopes/db:write/needed_when/properties/mode/type"
    assert problem.line == tree.line_of("db.query.yaml", "{type: wrong}")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("required: [mode]", "requird: [mode]", "did you mean required?"),
        ("{mode: {const: write}}", "{mode: {konst: write}}", "did you mean const?"),
        ("{mode: {const: write}}", "{mode: {anyOf: [{const: write}, {const: x, iff: {}}]}}", "did you mean if?"),
        ("{mode: {const: write}}", "{mode: {const: write, not: {zzzz: 1}}}", "a keyword of JSON Schema"),
    ],
)
def test_a_condition_with_a_word_that_a_validator_would_ignore_is_refused_at_the_word(tree, old, new, says):
    tree.edit("db.query.yaml", old, new)
    problem = tree.the_problem("scope.condition")
    assert says in problem.mend
    assert problem.line == tree.line_of("db.query.yaml", new)


def test_a_condition_may_ask_for_a_property_that_is_called_like_no_keyword(tree):
    tree.edit(
        "db.query.yaml", "required: [mode]", "required: [mode]\n          not: {properties: {timeout_ms: {const: 1}}}"
    )
    tree.load()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("-----BEGIN PRIVATE KEY-----", "not a JWK Set"),
        ("{}", "not a JWK Set with at least one key"),
        (json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "d": "AAAA"}]}), "private members"),
    ],
)
def test_a_key_file_that_holds_no_public_keys_is_refused_and_not_repeated(tree, content, says):
    tree.write("keys/operator.json", content)
    problem = tree.the_problem("trust.keys")
    assert says in problem.message
    assert problem.line == tree.line_of("trust.yaml", "keys/operator.json")
    assert "AAAA" not in str(problem)


def test_a_tool_that_trust_names_for_a_client_has_a_file(tree):
    tree.edit("trust.yaml", "tools: [db.query, files.read]", "tools: [db.qery, files.read, nowhere, later.*]")
    found = [(problem.rule, problem.message, problem.mend) for problem in tree.problems()]
    assert found == [
        ("tool.unknown", "there is no file db.qery.yaml", "did you mean db.query?"),
        (
            "tool.unknown",
            "there is no file nowhere.yaml",
            "tools here: db.query, files.read, files.write, k8s.exec, payments.refund, repo.open_change",
        ),
    ]


def test_an_issuer_over_plain_http_is_reported_where_it_stands(tree):
    tree.edit("trust.yaml", "  http://127.0.0.1:8421:\n", "  http://idp.example:\n")
    assert tree.the_problem("trust.transport").line == tree.line_of("trust.yaml", "http://idp.example:")


def test_a_tenant_is_not_changed_by_a_reload(tree):
    source = PolicyFolder(tree.folder)
    tree.edit("trust.yaml", "tenant: default", "tenant: other")
    with pytest.raises(PolicyInvalidError, match=r"(?s)trust\.tenant.*restart the broker"):
        source.read()
    assert source.current().tenant == "default"


@pytest.mark.parametrize(
    ("old", "new", "rule", "says"),
    [
        ("scopes: [db:read]\n", "scopes: [db:reed]\n", "scope.unknown", "db:reed"),
        ("clients: [reporting-mcp]", "clients: [reporting]", "client.unknown", "reporting"),
        ("claims: {groups:", "claims: {teams:", "claim.unknown", "teams"),
        ("allow: {clients: [reporting-mcp],", "allow: {clients: [],", "field.value", "a list of 0"),
        ("/query: {kind: query,", "/sql: {kind: query,", "argument.unknown", "/sql"),
        (
            "{kind: query, enforced_by: [db:read, db:write]}",
            "{kind: query, within: [/srv]}",
            "argument.root",
            "no roots",
        ),
        ("enforced_by: [db:read, db:write]", "enforced_by: [db:all]", "scope.unknown", "db:all"),
        ("required: [mode]", "required: [mod]", "scope.condition", "'mod'"),
        ('extends: "3"', 'extends: "2"', "version.extends", '"2"'),
        ('extends: "3"', 'extends: "4"', "version.extends", "circle"),
        ('replaces: "3"', 'replaces: "4"', "version.replaces", "not another version"),
        ("tasks: {migrate: null}", "tasks: {cleanup: null}", "version.extends", "cleanup"),
        ("ttl: 120s", "ttl: 301s", "field.value", "301"),
        ("ttl: 120s", "ttl: 0s", "field.value", "0s"),
        ("ttl: 120s", "ttl: 1.5s", "field.value", "1.5s"),
        ("ttl: 60s", "ttl: 60s\n        uses: 0", "field.value", "number 0"),
        ("audience: https://db.internal", "audience: db.internal", "field.value", "db.internal"),
        ("contract: contracts/db.query/3.json", "contract: contracts/../../etc/x.json", "version.contract", "no file"),
        ("contract: contracts/db.query/3.json", "contract: /etc/x.json", "field.value", "contracts/"),
        ("tool: db.query", "tool: db.other", "file.name", "db.other.yaml"),
    ],
)
def test_a_tool_file_that_is_wrong_is_refused(tree, old, new, rule, says):
    tree.edit("db.query.yaml", old, new)
    found = [problem for problem in tree.problems() if problem.rule == rule]
    assert any(says in problem.message + problem.mend for problem in found), [str(one) for one in tree.problems()]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"files:read:{/path}": #', '"files:read:{/file}": #', "scope.template"),
        ('"files:read:{/path}": #', '"{/path}": #', "scope.template"),
        ('"files:read:{/path}": #', '"files:{/path}{/path}": #', "scope.template"),
        ('"files:read:{/path}": #', '"files:read:*": #', "scope.template"),
        ('"files:read:{/path}": #', '"files:read:{/path}-x": #', "scope.template"),
        (
            '"files:read:{/path}": #',
            '"files:read:all": {needed_when: true}\n      "files:read:{/path}": #',
            "scope.template",
        ),
        ("within: [/srv/reports]", "within: [srv/reports]", "argument.root"),
        ("within: [/srv/reports]", "within: [/srv/../etc]", "argument.root"),
        ("within: [/srv/reports]", "within: []", "field.value"),
        ("within: [/srv/reports]", "within: [/srv/reports, /srv/reports]", "field.value"),
    ],
)
def test_a_root_or_template_that_is_wrong_is_refused(tree, old, new, rule):
    tree.edit("files.read.yaml", old, new)
    assert rule in tree.rules()


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("  http://127.0.0.1:8421:\n", "  http://idp.example:\n", "trust.transport"),
        ('"http://127.0.0.1:8421/jwks.json"', '"http://127.0.0.1.evil.example/jwks.json"', "trust.transport"),
        (
            '{url: "http://127.0.0.1:8421/jwks.json"}',
            '{url: "https://a.example/k", file: keys/db-api.json}',
            "field.missing",
        ),
        ("algorithms: [ES256, RS256]", "algorithms: [ES256, HS256]", "field.value"),
        ("algorithms: [ES256, RS256]", "algorithms: [none]", "field.value"),
        ("algorithms: [ES256, RS256]", "algorithms: []", "field.value"),
        ("    tools: [db.query, files.read]\n", "", "client.incomplete"),
        ("    resource: http://127.0.0.1:8430/mcp", "    # resource", "client.incomplete"),
        ("may: [exchange, introspect, report]", "may: [exchange, promote]", "field.value"),
        ("max_ttl: 300s", "max_ttl: 301s", "field.value"),
        ("leeway: 10s", "leeway: 61s", "field.value"),
        ("ttl: 60s,", "ttl: 400s,", "field.value"),
        ("    auth: private_key_jwt", "    auth: client_secret_basic", "client.auth"),
        ("jwks: {file: keys/operator.json}", "jwks: {file: keys/absent.json}", "trust.keys"),
        ("jwks: {file: keys/operator.json}", "jwks: {file: ../keys/operator.json}", "trust.keys"),
        ("tenant: default", "tenant: Default", "field.value"),
        ("issuers: #", "isuers: #", "field.unknown"),
    ],
)
def test_a_trust_file_that_is_wrong_is_refused(tree, old, new, rule):
    tree.edit("trust.yaml", old, new)
    assert rule in tree.rules()


def test_a_secret_written_in_clear_is_refused_and_never_shown(tree):
    tree.edit(
        "trust.yaml",
        "    auth: private_key_jwt\n    jwks: {file: keys/db-api.json}",
        "    auth: client_secret_basic\n    secret: hunter2hunter2",
    )
    problem = tree.the_problem("field.value")
    assert problem.pointer == "/clients/db-api/secret"
    with pytest.raises(PolicyInvalidError) as caught:
        tree.load()
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.problems)


def test_a_client_secret_may_be_two_while_it_is_rotated(tree):
    first, second = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    tree.edit(
        "trust.yaml",
        "    auth: private_key_jwt\n    jwks: {file: keys/db-api.json}",
        f"    auth: client_secret_basic\n    secret: [{first}, {second}]",
    )
    client = tree.load().clients["db-api"]
    assert client.secrets == (first, second)
    assert client.jwks is None


def test_an_empty_allow_is_lawful_and_allows_nobody(tree):
    tree.edit("db.query.yaml", "allow: {clients: [reporting-mcp], claims: {groups: [analysts, dba]}}", "allow: {}")
    task = tree.load().tools["db.query"].versions["3"].tasks["report"]
    assert (task.clients, dict(task.claims)) == ((), {})


def test_a_default_outside_the_roots_is_refused(tree):
    tree.edit("contracts/files.read/1.json", '"minLength": 1,', '"minLength": 1, "default": "/etc/hosts",')
    assert "argument.root" in tree.rules()


def test_yml_files_are_reported_because_they_would_not_be_read(tree):
    tree.write("other.yml", "tool: other")
    assert tree.the_problem("file.name").file == "other.yml"


def test_a_byte_order_mark_at_the_beginning_is_no_problem(tree):
    content = (tree.folder / "db.query.yaml").read_bytes()
    tree.write("db.query.yaml", b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    assert "db.query" in tree.load().tools


@pytest.mark.parametrize(
    ("content", "rule", "place"),
    [
        (b"tool: db.query\nowners: [\xff]\n", "yaml.encoding", (2, 10)),
        (b"tool: db.query\n\xef\xbb\xbfowners: []\n", "yaml.bom", (2, 1)),
        (b"tool: db.query\nowners:\t[a]\n", "yaml.tab", (2, 8)),
        (b"tool: db.query\nowners:\n\t- a\n", "yaml.tab", (3, 1)),
        (b"tool: db.query\n---\ntool: x\n", "yaml.documents", (2, 1)),
        (b"%YAML 1.1\n---\ntool: x\n", "yaml.directive", (1, 1)),
        (b"tool: !!str x\n", "yaml.tag", (1, 7)),
        (b"tool: !python/object/apply:os.system [x]\n", "yaml.tag", (1, 7)),
        (b"tool: 'a\xe2\x80\xa8b'\n", "yaml.line-break", (1, 9)),
        (b"tool: a\x00b\n", "yaml.character", (1, 8)),
        (b"tool: [a\n", "yaml.syntax", (2, 1)),
        (b"? {a: b}\n: c\n", "yaml.key", (1, 3)),
        (b"", "yaml.empty", (1, 1)),
        (b"# only words\n", "yaml.empty", (1, 1)),
        (b"- a\n", "field.type", (1, 1)),
        (b"tool: " + b"[" * 40 + b"]" * 40, "yaml.depth", (1, 38)),
        (b"tool: a\ntool: b\n", "yaml.duplicate-key", (2, 1)),
        (b"a" * 1_048_577, "file.size", (0, 0)),
    ],
)
def test_what_yaml_readers_disagree_on_is_refused_at_its_place(tree, content, rule, place):
    tree.write("db.query.yaml", content)
    found = [problem for problem in tree.problems() if problem.rule == rule]
    assert [(one.file, one.line, one.column) for one in found] == [("db.query.yaml", *place)], [
        str(one) for one in tree.problems()
    ]


def test_a_bomb_of_nested_lists_is_a_problem_and_no_crash(tree):
    tree.write("db.query.yaml", "[" * 100_000)
    assert tree.rules() & {"yaml.depth", "yaml.syntax"}


def test_a_long_chain_of_versions_is_a_problem_and_no_crash(tree):
    chain = "".join(f'  "{n}": {{extends: "{n + 1}"}}\n' for n in range(5000))
    tree.write("db.query.yaml", f"tool: db.query\naudience: https://a\nowners: [a]\nversions:\n{chain}")
    assert "version.extends" in tree.rules()


def test_a_missing_folder_is_a_problem(tmp_path):
    with pytest.raises(PolicyInvalidError) as caught:
        load_policy(tmp_path / "nowhere")
    assert [problem.rule for problem in caught.value.problems] == ["file.missing"]


def test_a_folder_without_trust_names_that_and_what_else_is_wrong(tree):
    (tree.folder / "trust.yaml").unlink()
    tree.edit("db.query.yaml", "ttl: 60s", "ttl: 60")
    assert {(one.file, one.rule) for one in tree.problems()} == {
        ("trust.yaml", "file.missing"),
        ("db.query.yaml", "field.type"),
    }


def test_a_folder_without_tools_is_a_problem(tree):
    for path in tree.folder.glob("*.yaml"):
        if path.name != "trust.yaml":
            path.unlink()
    assert "file.missing" in tree.rules()


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_a_problem(tree):
    (tree.folder / "db.query.yaml").unlink()
    (tree.folder / "db.query.yaml").mkdir()
    (tree.folder / "files.read.yaml").unlink()
    os.mkfifo(tree.folder / "files.read.yaml")
    found = {(one.file, one.rule) for one in tree.problems()}
    assert ("db.query.yaml", "file.unreadable") in found
    assert ("files.read.yaml", "file.unreadable") in found


def test_a_reload_that_fails_keeps_the_last_good_policy(tree):
    source = PolicyFolder(tree.folder)
    good = source.current()
    tree.edit("db.query.yaml", "ttl: 60s", "ttl: 60")
    with pytest.raises(PolicyInvalidError):
        source.read()
    assert source.current() is good


def test_what_is_read_is_in_force_once_it_is_adopted(tree):
    source = PolicyFolder(tree.folder)
    good = source.current()
    tree.edit("db.query.yaml", "ttl: 60s", "ttl: 30s")
    read = source.read()
    assert source.current() is good
    source.adopt(read)
    assert source.tree() is read
    assert source.current().tools["db.query"].versions["3"].tasks["report"].ttl_seconds == 30


def test_a_relative_folder_gives_absolute_key_files(tree, monkeypatch):
    monkeypatch.chdir(tree.folder.parent)
    file = load_policy(Path(tree.folder.name)).clients["db-api"].jwks.file
    assert file == str(tree.folder / "keys/db-api.json")


def test_an_argument_may_lie_in_the_members_of_a_list_and_behind_a_reference(tree):
    contract = json.loads((tree.folder / "contracts/repo.open_change/1.json").read_text())
    assert "/files/path" in tree.load().tools["repo.open_change"].versions["1"].arguments
    files = contract["inputSchema"]["properties"]["files"]
    contract["inputSchema"]["$defs"] = {"file": files["items"]}
    contract["inputSchema"]["properties"]["files"] = {**files, "items": {"allOf": [{"$ref": "#/$defs/file"}]}}
    tree.write("contracts/repo.open_change/1.json", json.dumps(contract))
    assert tree.rules() == {"version.digest"}
    tree.edit("repo.open_change.yaml", "/files/path:", "/files/name:")
    assert tree.rules() == {"version.digest", "argument.unknown"}
