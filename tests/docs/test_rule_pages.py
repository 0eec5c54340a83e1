"""Each rule has a page; its examples are real folders, and the command says of them what the page says it does.

A page holds `## Refused` and `## Lawful`. A fenced block `yaml NAME`, `json NAME` is a file of the folder, with ` +` what is added
to the end of one that is there. A `text` block is what the command prints. `sh` shows a command with a base tree: the folder
that all examples start from. `UPDATE_PAGES=1` writes what is printed into the pages, to be read before it is committed.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from broker.cli.policy import policy_group
from broker.domain.contracts.contract import parse_contract
from broker.domain.policy.findings import RuleId
from click.testing import CliRunner

DOCS = Path(__file__).parents[2] / "broker" / "docs"
BLOCK = re.compile(r"^```(yaml|json|text|sh)(?: (\S+)( \+)?)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_DIGEST = "sha256:…"
SIDES = [(rule.value, side) for rule in RuleId for side in ("Refused", "Lawful")]
# A test case that every added version gets, as the index says: what is permitted depends on the version, a stranger on none.
STRANGER = {"client": "notes-mcp", "issuer": "https://idp.example", "arguments": {"note": "minutes"}}


@dataclass(frozen=True, slots=True)
class Side:
    """One example: its files, whether there is a base tree, and where its `text` block stands in the page."""

    files: tuple[tuple[str, bool, str], ...]
    with_base: bool
    said: str
    span: tuple[int, int]


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def read_side(text: str, heading: str) -> Side:
    begin = text.index(f"\n## {heading}\n")
    end = text.find("\n## ", begin + 4)
    files, with_base, said, span = [], False, "", (0, 0)
    for found in BLOCK.finditer(text, begin, end if end > 0 else len(text)):
        kind, name, added, body = found.groups()
        if kind in ("yaml", "json") and name:
            files.append((name, bool(added), body))
        elif kind == "sh":
            with_base = "--base" in body
        elif kind == "text":
            said, span = body, found.span(4)
    return Side(tuple(files), with_base, said, span)


def write_folder(folder: Path, *changes: tuple[str, bool, str]) -> None:
    start = [(found[2], False, found[4]) for found in BLOCK.finditer(page("rules")) if found[2]]
    for name, added, body in (*start, *changes):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = body.replace("TODAY+30", f'"{(datetime.now(UTC) + timedelta(days=30)).date().isoformat()}"')
        path.write_text(path.read_text() + "\n" + text if added else text)
    fill_digests(folder / "notes.yaml", folder)
    add_cases(folder, {name for name, _, _ in changes})


def fill_digests(path: Path, folder: Path) -> None:
    lines, contract = [], ""
    for line in path.read_text().splitlines():
        if "contract:" in line:
            contract = line.split()[1]
        if ANY_DIGEST in line:
            line = line.replace(ANY_DIGEST, parse_contract(json.loads((folder / contract).read_text())).digest)
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def add_cases(folder: Path, changed: set[str]) -> None:
    """A permit and a refusal for each version that an example adds; an example that writes tests writes all of them."""
    path = folder / "tests" / "notes.yaml"
    cases = yaml.safe_load(path.read_text())
    tested = {case["request"]["version"] for case in cases["cases"]}
    added = [
        version for version in yaml.safe_load((folder / "notes.yaml").read_text())["versions"] if version not in tested
    ]
    if "tests/notes.yaml" in changed or not added:
        return
    for version in added:
        request = {"version": version, "task": "look", **STRANGER}
        staff = {**request, "claims": {"groups": ["staff"]}}
        cases["cases"] += [
            {"name": f"staff look with {version}", "request": staff, "permit": ["notes:read:minutes"]},
            {"name": f"strangers do not with {version}", "request": request, "refuse": "task_not_allowed"},
        ]
    path.write_text(json.dumps(cases, indent=2))  # JSON is YAML


def check(folder: Path, *arguments: str) -> tuple[int, str]:
    """The command's exit code and all that it prints; digests left out, a date that moves named."""
    result = CliRunner().invoke(policy_group, ["check", "--without-keys", "--no-cache", *arguments, str(folder)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    text = re.sub(r"sha256:[0-9a-f]{64}", ANY_DIGEST, result.output).replace(f"{folder}/", "")
    text = text.replace((datetime.now(UTC) + timedelta(days=30)).date().isoformat(), "TODAY+30")
    return result.exit_code, "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


@pytest.mark.parametrize(("rule", "heading"), SIDES)
def test_an_example_is_judged_as_its_page_says(tmp_path: Path, rule: str, heading: str) -> None:
    text = page(rule)
    side = read_side(text, heading)
    write_folder(tmp_path / "after", *side.files)
    arguments: tuple[str, ...] = ()
    if side.with_base:
        write_folder(tmp_path / "before")
        arguments = ("--base", str(tmp_path / "before"))
    code, said = check(tmp_path / "after", *arguments)
    if heading == "Refused":
        assert code == (2 if rule == RuleId.RELATION_UNDECIDED else 1), said
        assert rule in said
    else:
        assert code == 0, said
    if os.environ.get("UPDATE_PAGES"):
        begin, end = side.span
        (DOCS / f"{rule}.md").write_text(text[:begin] + said + text[end:])
        return
    assert said == side.said


@pytest.mark.parametrize("rule", [rule.value for rule in RuleId])
def test_a_page_says_what_why_how_to_mend_it_and_when_an_exception_is_right(rule: str) -> None:
    text = page(rule)
    assert text.startswith(f"# {rule}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Refused",
        "Lawful",
        "How to mend it",
        "When an exception is right",
    ]
    assert f"[{rule}]({rule}.md)" in page("rules")
