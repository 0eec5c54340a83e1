"""What is shipped for CI works: the jobs are of the form their systems read, their steps run by hand over a real repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from git_parts import Repository
from rules_parts import TOOL, inputs, needs, task, version, write_folder

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy" / "ci"
BIN = Path(sys.executable).parent
FIRST = version(
    inputs(["mode"], mode=["read", "write"]), scopes={"files:read": True, "files:write": needs("mode", "write")}
)
TIGHTER = inputs(["mode"], mode=["read"])
FOLLOWS = {"extends": "1", "replaces": "1"}
BOTH = version(TIGHTER, **FOLLOWS, scopes={"files:write": None}, tasks={"work": task("files:read")})
ALONE = version(TIGHTER, **FOLLOWS)


def run(*words: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=at,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        ("policy.github.yml", ["vendor.github-workflows"]),
        ("policy.github.yml", ["custom.github-workflows-require-timeout"]),
        ("policy.gitlab.yml", ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_a_job_has_the_form_that_its_system_reads(file: str, schema: list[str]):
    done = run("check-jsonschema", "--builtin-schema", *schema, str(CI / file), at=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_has_the_form_that_pre_commit_reads():
    done = run("pre-commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml"), at=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Repository:
    """A clone whose branch comes from main, while main went on and published another tool's version since."""
    origin = Repository(tmp_path / "origin")
    write_folder(origin.folder / "policies", {"1": FIRST})
    origin.commit("published")
    done = run("git", "clone", "--quiet", str(origin.folder), str(tmp_path / "clone"), at=tmp_path)
    assert done.returncode == 0, done.stderr
    made = Repository(tmp_path / "clone")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def change(clone: Repository, second: dict[str, Any]) -> None:
    shutil.rmtree(clone.folder / "policies")
    cases = [
        {"name": f"{who}, {number}", "request": {"version": number, "client": "agents", **more}, **expected}
        for number in ("1", "2")
        for who, more, expected in (
            (
                "staff may",
                {
                    "issuer": "https://idp.example",
                    "claims": {"groups": ["staff"]},
                    "task": "work",
                    "arguments": {"mode": "read"},
                },
                {"permit": ["files:read"]},
            ),
            (
                "strangers may not",
                {"issuer": "https://idp.example", "task": "work", "arguments": {"mode": "read"}},
                {"refuse": "task_not_allowed"},
            ),
        )
    ]
    write_folder(clone.folder / "policies", {"1": FIRST, "2": second}, cases=cases)
    clone.commit("a change")


def steps(file: str) -> dict[str, str]:
    """By name, the shell of the GitHub job's steps; installing left out."""
    job = yaml.safe_load((CI / file).read_text())["jobs"]["check"]
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step and step["name"] != "install"}


def test_the_github_steps_refuse_half_a_change_with_annotations_and_a_report(clone: Repository):
    change(clone, ALONE)
    shell = steps("policy.github.yml")
    checked = run("bash", "-e", "-c", shell["check"], at=clone.folder, BASE="origin/main")
    assert checked.returncode == 1
    assert f"::error file=policies/{TOOL}.yaml,line=" in checked.stdout
    reported = run("bash", "-e", "-c", shell["report"], at=clone.folder, BASE="origin/main")
    assert reported.returncode == 0, reported.stderr
    log = json.loads((clone.folder / "policy.sarif").read_text())
    assert "lockstep.alone" in {one["ruleId"] for one in log["runs"][0]["results"]}


def test_the_github_steps_let_both_halves_pass(clone: Repository):
    change(clone, BOTH)
    for name, shell in steps("policy.github.yml").items():
        done = run("bash", "-e", "-c", shell, at=clone.folder, BASE="origin/main")
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


def test_the_github_job_puts_no_name_of_a_branch_into_a_shell():
    assert not [shell for shell in steps("policy.github.yml").values() if "${{" in shell]


@pytest.mark.parametrize(("second", "refused"), [(BOTH, False), (ALONE, True)], ids=["both", "half"])
def test_the_plain_steps_judge_a_branch_that_is_behind(
    clone: Repository, tmp_path: Path, second: dict[str, Any], refused: bool
):
    change(clone, second)
    origin = Repository(tmp_path / "origin")
    shutil.rmtree(origin.folder / "policies")
    write_folder(origin.folder / "policies", {"1": FIRST, "9": version(**FOLLOWS, change={"class": "none"})})
    origin.commit("published meanwhile")
    job = yaml.safe_load((CI / "policy.gitlab.yml").read_text())["policy"]
    codes = [run("sh", "-e", "-c", line, at=clone.folder, TARGET="main").returncode for line in job["script"]]
    assert codes == ([0, 1, 0] if refused else [0, 0, 0])
    behind = run("broker", "policy", "check", "--without-keys", "--base", "origin/main", at=clone.folder)
    said = f"{TOOL}@9 is gone from the files"
    assert said in behind.stdout
    parted = run("broker", "policy", "check", "--without-keys", "--base", "origin/main...", at=clone.folder)
    assert said not in parted.stdout


@pytest.mark.parametrize(("second", "code"), [(BOTH, 0), (ALONE, 1)], ids=["both", "half"])
def test_the_hook_runs_before_a_commit(clone: Repository, second: dict[str, Any], code: int):
    """By its own entry, as a local hook, since building an environment takes a registry."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["language"], hook["additional_dependencies"]) == ("python", [".[server]"])
    local = {**hook, "language": "system", "entry": f"{BIN}/{hook['entry']}"}
    del local["additional_dependencies"]
    (clone.folder / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [{"repo": "local", "hooks": [local]}]}))
    clone.commit("a hook")
    shutil.rmtree(clone.folder / "policies")
    write_folder(clone.folder / "policies", {"1": FIRST, "2": second})
    clone.git("add", "--all")
    done = run("pre-commit", "run", at=clone.folder, PRE_COMMIT_HOME=str(clone.folder.parent / "hooks"))
    assert done.returncode == code, done.stdout + done.stderr
    assert ("lockstep.alone" in done.stdout) is (code == 1)
