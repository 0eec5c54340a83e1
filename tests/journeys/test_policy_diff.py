"""`broker policy diff`, as a real process: contracts, versions, folders and revisions of git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHIPPED = Path(__file__).parents[2] / "policies"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(SHIPPED, tmp_path / "policies")
    return tmp_path


def diff(place: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker.cli.main", "policy", "diff", "--cache", str(place / "cache"), *words]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        command,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**inherited, **(environment or {})},
    )


def git(place: Path, *words: str) -> None:
    named = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *named, *words], cwd=place, check=True, capture_output=True, timeout=60)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_two_versions_are_told_with_their_relation_their_scopes_and_where_each_change_stands(place):
    result = diff(place, "db.query@3", "db.query@4")
    assert (result.returncode, result.stderr) == (0, "")
    told = result.stdout
    assert "db.query@3 → db.query@4" in told
    assert "class: breaking" in told
    assert "inputs: incomparable" in told
    assert "accepted before, refused now: {" in told
    assert "refused before, accepted now: {" in told
    assert "scopes: reduced" in told
    assert 'contracts/db.query/4.json:23:9: `mode` no longer accepts "write"' in told
    assert "`timeout_ms` (optional integer) was renamed `timeout`, going by their likeness" in told
    assert "in [-milliseconds-]{+seconds+}." in told
    assert "db:write is cut: no task grants it" in told
    assert "migrate is gone: nobody may have it" in told
    assert "\x1b" not in told


def test_the_same_for_programs(place):
    found = json.loads(diff(place, "db.query@3", "db.query@4", "--format", "json").stdout)
    (step,) = found["compared"]
    assert found["differs"] is True
    assert (step["class"], step["inputs"]["relation"], step["scopes"]) == ("breaking", "incomparable", "reduced")
    removed = next(one for one in step["changes"] if one["kind"] == "enum-values-removed")
    assert removed["before"] == ["write"]
    assert removed["place"] == {
        "file": "contracts/db.query/4.json",
        "line": 23,
        "column": 9,
        "pointer": "/inputSchema/properties/mode/enum",
        "tree": "",
    }
    assert {"about": "task", "name": "migrate"}.items() <= next(
        one for one in step["grants"] if one["about"] == "task"
    ).items()


def test_two_contract_files_of_tools_with_two_names_are_compared_as_one_that_was_renamed(place):
    renamed = place / "renamed.json"
    renamed.write_text((place / "policies/contracts/db.query/4.json").read_text().replace('"db.query"', '"db.ask"', 1))
    result = diff(place, "policies/contracts/db.query/4.json", "renamed.json")
    assert result.returncode == 0
    assert "class: renamed" in result.stdout
    assert "renamed.json:2:3: the tool `db.query` is called `db.ask` now" in result.stdout
    assert "inputs: equal" in result.stdout


def test_a_contract_file_is_compared_with_a_version(place):
    result = diff(place, "db.query@3", "policies/contracts/db.query/3.json", "--exit-code")
    assert (result.returncode, "class: none" in result.stdout) == (0, True)


def test_folders_are_told_by_what_is_new_gone_and_edited(place):
    shutil.copytree(place / "policies", place / "new")
    (place / "new/files.read.yaml").unlink()
    shutil.rmtree(place / "new/contracts/files.read")
    (place / "new/tests/files.read.yaml").unlink(missing_ok=True)
    trust = place / "new/trust.yaml"
    trust.write_text(trust.read_text().replace(", files.read]", "]"))
    change(place / "new/db.query.yaml", "ttl: 60s", "ttl: 90s")
    result = diff(place, "policies", "new")
    assert result.returncode == 0, result.stderr
    assert "db.query@3 (old) → db.query@3 (edited in place)" in result.stdout
    assert "report lasts 90 s; it lasted 60 s" in result.stdout
    assert "files.read@1 is gone" in result.stdout
    turned = diff(place, "new", "policies").stdout
    assert "files.read@1 is new, and follows no other" in turned


def test_a_revision_is_compared_with_the_folder_as_it_is(place):
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    assert diff(place, "HEAD", "--exit-code").stdout.strip() == "nothing differs"
    change(place / "policies/db.query.yaml", "ttl: 120s", "ttl: 30s")
    result = diff(place, "HEAD", "--exit-code")
    assert result.returncode == 1
    assert "db.query@3 (HEAD) → db.query@3 (edited in place)" in result.stdout
    git(place, "commit", "-q", "-a", "-m", "second")
    assert "migrate lasts 30 s; it lasted 120 s" in diff(place, "HEAD~1", "HEAD").stdout


UNUSABLE = [
    (["nonsense", "policies"], "nonsense is no contract file, no folder and no TOOL@VERSION"),
    (["db.query@9", "db.query@4"], "db.query has no version 9; it has 3, 4"),
    (["db.ask@1", "db.query@4"], "there is no tool db.ask"),
    (["policies", "db.query@4"], "a folder or revision is compared with another"),
    (["absent.json", "db.query@4"], "absent.json: cannot be read"),
    (["policies/trust.yaml", "db.query@4"], "policies/trust.yaml:"),
    (["--policies", "absent", "db.query@3", "db.query@4"], "absent"),
]


@pytest.mark.parametrize(("words", "said"), UNUSABLE)
def test_what_cannot_be_compared_exits_3_and_says_what_was_wrong(place, words, said):
    result = diff(place, *words)
    assert result.returncode == 3
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_hostile_words_of_a_contract_do_nothing_to_a_terminal(place):
    found = json.loads((place / "policies/contracts/db.query/4.json").read_text())
    found["description"] = "Reads.\x1b]0;owned\x07 \u202egnp.exe\nSecond line \x1b[31m"
    (place / "hostile.json").write_text(json.dumps(found))
    told = diff(place, "policies/contracts/db.query/4.json", "hostile.json").stdout
    assert all(line.isprintable() for line in told.splitlines())
