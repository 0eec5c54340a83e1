"""`broker policy check` and `approve` as they are used: real processes, real repositories, every exit code and every form."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from broker.cli.main import cli
from broker.domain.errors import ConfigurationError
from click.testing import CliRunner

from git_parts import Repository
from rules_parts import TOOL, excepted, inputs, needs, task, version, write_folder

FIRST = version(
    inputs(["mode"], mode=["read", "write"]), scopes={"files:read": True, "files:write": needs("mode", "write")}
)
TIGHTER = inputs(["mode"], mode=["read"])
FOLLOWS = {"extends": "1", "replaces": "1"}
BOTH = version(TIGHTER, **FOLLOWS, scopes={"files:write": None}, tasks={"work": task("files:read")})
ALONE = version(TIGHTER, **FOLLOWS)
LOOKAHEAD = {"type": "string", "pattern": "^(?=r)[a-z]{1,5}$"}
UNKNOWN = version(
    inputs(["mode"], mode=LOOKAHEAD), **FOLLOWS, scopes={"files:write": None}, tasks={"work": task("files:read")}
)
WIDER = version(
    **FOLLOWS,
    tasks={"work": {**task("files:read", "files:write"), "allow": {"claims": {"groups": ["staff", "guests"]}}}},
)


def broker(*words: object, at: Path, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "broker.cli.main", "policy", *map(str, words)],
        cwd=at,
        input=given,
        env={**os.environ, "XDG_CACHE_HOME": str(at / ".cache"), "NO_COLOR": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def check(*words: object, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return broker("check", "--without-keys", *words, at=at, **environment)


def inside(*words: object, at: Path) -> tuple[int, str]:
    """The same in this process, for what is asked many times: exit code, and all that is printed."""
    with chdir(at):
        done = CliRunner().invoke(cli, ["policy", *map(str, words)])
    if isinstance(done.exception, ConfigurationError):  # which `main` turns into this
        return 3, f"{done.output}{done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done.exit_code, done.output


def rewrite(folder: Path, versions: Mapping[str, dict[str, Any]], **more: Any) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(folder, versions, **more)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The first version is on main, in a folder and a repository whose names have blanks."""
    made = Repository(tmp_path / "a team's repository")
    write_folder(made.folder / "the policies", {"1": FIRST})
    made.commit()
    return made


@pytest.mark.parametrize(
    ("second", "code", "verdict"),
    [(BOTH, 0, "lawful"), (ALONE, 1, "refused"), (UNKNOWN, 2, "cannot decide")],
    ids=["lawful", "refused", "undecided"],
)
def test_a_change_is_judged_against_the_branch(repository: Repository, second: dict[str, Any], code: int, verdict: str):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": second})
    done = check("the policies", "--base", "main", at=repository.folder)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.search(rf"^{verdict}\b", done.stdout, re.MULTILINE)
    assert f"compared with main ({repository.git('rev-parse', 'HEAD')[:12]})" in done.stdout
    assert done.stderr == ""


def test_the_text_names_a_place_that_is_there_with_caret_witness_and_mend(repository: Repository):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE})
    done = check("the policies", "--base", "main", at=repository.folder)
    found = re.search(r"^(.+):(\d+):(\d+): lockstep\.alone: ", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    path, line, column = repository.folder / found[1], int(found[2]), int(found[3])
    source = path.read_text().splitlines()[line - 1]
    assert f"{line:>5} | {source}\n      | {' ' * (column - 1)}^" in done.stdout
    assert 'witness: {"mode": "write"}' in done.stdout
    assert "  mend: " in done.stdout


def test_what_the_base_has_is_published_and_may_not_change(repository: Repository):
    edited = version(TIGHTER, scopes={"files:read": True})
    rewrite(repository.folder / "the policies", {"1": edited})
    assert check("the policies", at=repository.folder).returncode == 0
    done = check("the policies", "--base", "HEAD", at=repository.folder)
    assert done.returncode == 1
    assert "version.edited" in done.stdout
    assert "(base)" in done.stdout


def test_another_folder_can_be_the_base(repository: Repository, tmp_path: Path):
    write_folder(tmp_path / "old one", {"1": FIRST})
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE})
    done = check("the policies", "--base", tmp_path / "old one", at=repository.folder)
    assert done.returncode == 1
    assert "compared with another folder" in done.stdout


def test_a_contract_that_moved_to_another_file_is_no_change(repository: Repository):
    folder = repository.folder / "the policies"
    (folder / "contracts" / TOOL / "1.json").rename(folder / "contracts" / TOOL / "first.json")
    text = (folder / f"{TOOL}.yaml").read_text()
    (folder / f"{TOOL}.yaml").write_text(text.replace(f"{TOOL}/1.json", f"{TOOL}/first.json"))
    done = check("the policies", "--base", "main", at=repository.folder)
    assert done.returncode == 0, done.stdout


def test_a_detached_worktree_is_checked_like_any_other(repository: Repository, tmp_path: Path):
    worktree = tmp_path / "beside"
    repository.git("worktree", "add", "--quiet", "--detach", str(worktree), "HEAD")
    rewrite(worktree / "the policies", {"1": FIRST, "2": ALONE})
    assert check(worktree / "the policies", "--base", "main", at=tmp_path).returncode == 1
    assert repository.git("status", "--porcelain") == ""


def test_a_folder_that_the_base_does_not_have_is_all_new(repository: Repository):
    write_folder(repository.folder / "more", {"1": FIRST})
    done = check("more", "--base", "main", at=repository.folder)
    assert done.returncode == 0
    assert "everything is new" in done.stdout


def test_a_name_that_is_a_folder_and_a_branch_is_refused(repository: Repository):
    write_folder(repository.folder / "main", {"1": FIRST})
    done = check("the policies", "--base", "main", at=repository.folder)
    assert done.returncode == 3
    assert "write ./main for the folder, or refs/heads/main for a branch" in done.stdout
    for exact in ("./main", "refs/heads/main"):
        assert check("the policies", "--base", exact, at=repository.folder).returncode == 0


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_a_base_that_cannot_be_compared_with_exits_3_in_every_form(repository: Repository, form: str):
    (repository.folder / "the policies" / "trust.yaml").write_text("tenant: [\n")
    broken = repository.commit()
    rewrite(repository.folder / "the policies", {"1": FIRST})
    for base, said in (("nowhere", "knows no commit nowhere"), (broken, "is no lawful policy"), ("-x", "no commit")):
        words = ("--without-keys", "the policies", "--base", base, "--format", form)
        code, printed = inside("check", *words, at=repository.folder)
        assert code == 3, printed
        assert said in printed
        if form in ("json", "sarif"):
            json.loads(printed)


def test_input_that_is_no_policy_exits_3_and_a_wrong_digest_alone_1(repository: Repository):
    folder = repository.folder / "the policies"
    text = (folder / f"{TOOL}.yaml").read_text()
    (folder / f"{TOOL}.yaml").write_text(re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, text))
    done = check("the policies", at=repository.folder)
    assert done.returncode == 1
    assert "version.digest" in done.stdout
    (folder / "trust.yaml").write_text("tenant: default\nunknown: x\n")
    for form in ("text", "json", "sarif", "github"):
        code, printed = inside("check", "--without-keys", "the policies", "--format", form, at=repository.folder)
        assert code == 3
        assert "field.unknown" in printed
    assert check("the policies", "--bais", "main", at=repository.folder).returncode == 3


def test_json_holds_all_that_the_text_says(repository: Repository):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE})
    made = json.loads(check("the policies", "--base", "main", "--format", "json", at=repository.folder).stdout)
    assert (made["v"], made["verdict"], made["lawful"], made["base"]["has_folder"]) == (1, "refused", False, True)
    assert made["tools"] == {TOOL: ["1", "2"]}
    alone = next(one for one in made["findings"] if one["rule"] == "lockstep.alone")
    assert alone["witness"] == {"mode": "write"}
    assert alone["place"]["file"] == f"{TOOL}.yaml"
    assert alone["place"]["line"] > 1
    assert {"severity", "tool", "version", "key", "what", "why", "mend", "shows", "related", "page"} <= set(alone)


def test_annotations_and_sarif_name_files_from_the_top_of_the_repository(repository: Repository):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE})
    inside = repository.folder / "the policies"
    said = check(".", "--base", "main", "--format", "github", at=inside)
    assert said.returncode == 1
    assert f"::error file=the policies/{TOOL}.yaml,line=" in said.stdout
    done = check(".", "--base", "main", "--format", "sarif", "--output", "../found.sarif", at=inside)
    assert (done.returncode, done.stdout) == (1, "")
    log = json.loads((repository.folder / "found.sarif").read_text())
    uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["runs"][0]["results"]}
    assert uris == {f"the%20policies/{TOOL}.yaml"}


def test_an_exception_is_listed_in_every_form_and_changes_the_exit_code(repository: Repository):
    soon = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    rules = ("lockstep.alone", "lockstep.scope-kept")
    listed = [excepted(rule, "2", "ann", expires=soon) for rule in rules]
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE}, exceptions=listed)
    for form in ("text", "json", "sarif", "github"):
        words = ("--without-keys", "the policies", "--base", "main", "--format", form)
        code, printed = inside("check", *words, at=repository.folder)
        assert code == 0, printed
        assert "ann" in printed
        assert soon in printed


def test_the_cache_is_the_owners_and_can_be_left_out(repository: Repository):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": BOTH})
    check("the policies", "--no-cache", at=repository.folder)
    assert not (repository.folder / ".cache").exists()
    check("the policies", at=repository.folder)
    cache = repository.folder / ".cache" / "mayfly-broker"
    assert cache.stat().st_mode & 0o777 == 0o700
    assert list(cache.iterdir())


def on_a_terminal(words: list[str], *, at: Path, **environment: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words, cwd=at, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm", **environment}
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # the other side is gone
            break
        if not read:
            break
        printed += read
    os.close(ours)
    process.wait(60)
    return printed.decode()


def test_colours_are_for_a_terminal_whose_owner_wants_them(repository: Repository):
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": ALONE})
    words = [sys.executable, "-m", "broker.cli.main", "policy", "check", "--without-keys", "--no-cache", "the policies"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    assert "\x1b[" in on_a_terminal(words, at=repository.folder, NO_COLOR="")
    assert "\x1b[" not in on_a_terminal(words, at=repository.folder, **environment, NO_COLOR="1")


def approve(*words: object, at: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    about = ["--rule", "scope.widened", "--tool", TOOL, "--version", "2", "--reason", "agreed with the guests"]
    return broker("approve", "the policies", *about, *words, at=at, given=given)


@pytest.fixture
def widened(repository: Repository) -> Repository:
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": WIDER})
    return repository


def test_approving_shows_the_finding_and_the_difference_and_then_the_change_passes(widened: Repository):
    assert check("the policies", "--base", "main", at=widened.folder).returncode == 1
    file = widened.folder / "the policies" / "exceptions.yaml"
    asked = approve("--by", "ann", "--by", "bob", "--base", "main", at=widened.folder, given="n\n")
    assert asked.returncode == 1
    assert not file.exists()
    done = approve("--by", "ann", "--by", "bob", "--base", "main", at=widened.folder, given="y\n")
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (": scope.widened: ", "guests", '+    approved_by: ["ann", "bob"]', "exceptions.yaml?"):
        assert said in done.stdout
    last = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    assert f'expires: "{last}"' in file.read_text()
    passed = check("the policies", "--base", "main", at=widened.folder)
    assert passed.returncode == 0, passed.stdout
    assert f"approved by ann and bob until {last}: agreed with the guests" in passed.stdout
    again = approve("--by", "ann", "--by", "bob", "--yes", at=widened.folder)
    assert again.returncode == 1
    assert "excepted already" in again.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--by", "ann"], 1, "needs two different people"),
        (["--by", "ann", "--by", "Ann"], 1, "needs two different people"),
        (["--by", "ann", "--by", "bob", "--days", "91"], 1, "at most 90"),
        (["--by", "ann", "--by", "bob", "--expires", "2020-01-01"], 1, "ran out"),
        (["--by", "ann", "--by", "bob", "--expires", "soon"], 1, "is no day"),
        (["--by", "ann", "--by", "bob", "--reason", "  "], 1, "no reason"),
        (["--by", "ann", "--by", "bob", "--key", "elsewhere"], 1, "nothing to approve"),
        (["--by", "ann", "--by", "bob", "--version", "1"], 1, "nothing to approve"),
        (["--by", "ann", "--rule", "version.digest"], 1, "has no exception"),
        (["--by", "a n n", "--by", "bob"], 3, "the entry is none"),
        (["--by", "ann", "--by", "bob", "--base", "nowhere"], 3, "knows no commit"),
    ],
)
def test_what_would_not_hold_is_not_written(widened: Repository, words: list[str], code: int, said: str):
    about = ("--rule", "scope.widened", "--tool", TOOL, "--version", "2", "--reason", "agreed")
    ended, printed = inside("approve", "the policies", *about, "--yes", *words, at=widened.folder)
    assert ended == code, printed
    assert said in printed
    assert not (widened.folder / "the policies" / "exceptions.yaml").exists()


def test_what_ran_out_is_named_and_left_for_a_person(repository: Repository):
    old = excepted("scope.dead", "1", "cy", expires="2020-01-01")
    rewrite(repository.folder / "the policies", {"1": FIRST, "2": WIDER})
    file = repository.folder / "the policies" / "exceptions.yaml"
    entry = "\n    ".join(f"{name}: {json.dumps(value)}" for name, value in old.items())
    before = f"# kept by security\nexceptions:\n  - {entry}\n"
    file.write_text(before)
    done = approve("--by", "ann", "--by", "bob", "--yes", at=repository.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "line 3, scope.dead for files.read@1: the exception ran out on 2020-01-01" in done.stderr
    assert file.read_text().startswith(before)
