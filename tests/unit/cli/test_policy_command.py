"""`broker policy` says whether a folder is lawful, and exits 3 where it is not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from broker.cli.policy import policy_group
from broker.engines.jwk import generate_private_key, public_jwk
from click.testing import CliRunner

SHIPPED = Path(__file__).parents[3] / "policies"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    shutil.copytree(SHIPPED, folder)
    (folder / "keys").mkdir()
    keys = json.dumps({"keys": [public_jwk(generate_private_key("ES256"), algorithm="ES256")]})
    for name in re.findall(r"file: keys/([a-z-]+)\.json", (SHIPPED / "trust.yaml").read_text()):
        (folder / "keys" / f"{name}.json").write_text(keys)
    return folder


def run(*arguments: str):
    return CliRunner().invoke(policy_group, list(arguments))


def test_a_lawful_folder_exits_0_and_names_its_digest(folder):
    result = run("check", str(folder))
    assert result.exit_code == 0
    assert "6 tools, 9 versions" in result.output
    found = json.loads(run("check", str(folder), "--format", "json").output)
    assert found["lawful"] is True
    assert {name: found["tools"][name] for name in ("db.query", "files.read")} == {
        "db.query": ["3", "4"],
        "files.read": ["1"],
    }
    assert found["digest"] in result.output


def test_an_unlawful_folder_exits_3_with_every_problem(folder):
    (folder / "keys" / "db-api.json").unlink()
    (folder / "extra.yml").write_text("")
    result = run("check", str(folder))
    assert result.exit_code == 3
    assert "2 problems in the policy files" in result.output
    assert "broker keygen" in result.output
    found = run("check", str(folder), "--format", "json")
    assert found.exit_code == 3
    assert [problem["rule"] for problem in json.loads(found.output)["problems"]] == ["file.name", "trust.keys"]


def test_a_folder_whose_keys_are_elsewhere_can_be_reviewed():
    assert run("check", str(SHIPPED)).exit_code == 3
    result = run("check", "--without-keys", str(SHIPPED))
    assert result.exit_code == 0
    assert "6 tools, 9 versions" in result.output


def test_a_missing_folder_exits_3(tmp_path):
    assert run("check", str(tmp_path / "nowhere")).exit_code == 3


@pytest.mark.parametrize("kind", ["policy", "trust", "tests"])
def test_the_schema_is_printed(kind):
    result = run("schema", kind)
    assert result.exit_code == 0
    assert json.loads(result.output)["$schema"].endswith("2020-12/schema")
