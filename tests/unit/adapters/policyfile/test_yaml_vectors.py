"""YAML that two readers could read differently is refused wherever it would matter in a policy file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "yaml_policy.json").read_text())["vectors"]
SHARED = Path(__file__).parents[5] / "shared" / "data" / "cases.jsonl"

PLACES = {
    "ttl": ("        ttl: 120s\n", "        {}\n"),
    "version": ('    replaces: "3"\n', "    {}\n"),
    "contract": ("    contract: contracts/db.query/3.json\n", "    {}\n"),
    "versions": ("versions:\n", "{}\n#"),
    "top": ("owners: [data-platform]\n", "owners: [data-platform]\n{}\n"),
}


def put(tree, place: str, snippet: str) -> None:
    """Put a snippet where its key has a meaning; versions that a snippet may name exist."""
    if place == "version":
        snippet = snippet.replace("version:", "replaces:", 1)
        for version in ("1.10", "1.2.3"):
            text = (tree.folder / "db.query.yaml").read_text()
            tree.write("db.query.yaml", f'{text}\n  "{version}":\n    extends: "3"\n')
    if place == "versions":
        text = (tree.folder / "db.query.yaml").read_text()
        tree.write("db.query.yaml", text[: text.index("versions:\n")] + snippet + "\n")
        return
    if snippet.startswith("{"):  # a flow map is a whole file
        tree.write("db.query.yaml", snippet)
        return
    old, new = PLACES[place]
    tree.edit("db.query.yaml", old, new.format(snippet))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_vector_gets_its_verdict(tree, vector):
    put(tree, vector["place"], vector["yaml"])
    if vector["verdict"] == "accept":
        versions = tree.load().tools["db.query"].versions
        accepted = vector["yaml"].partition(": ")[2].strip('"')
        assert versions["4"].replaces == accepted
        return
    found = [problem for problem in tree.problems() if problem.rule == vector["rule"]]
    assert len(found) >= vector.get("count", 1), [str(problem) for problem in tree.problems()]
    text = (tree.folder / "db.query.yaml").read_text().split("\n")
    assert all(problem.column > 0 and text[problem.line - 1].strip() for problem in found)
    if vector["rule"] == "yaml.ambiguous":
        assert all(problem.mend.startswith("quote it") for problem in found)


@pytest.mark.shared
def test_the_vectors_hold_every_case_of_the_shared_data():
    if not SHARED.exists():
        pytest.skip("the folder ../shared/data is not here")
    cases = [json.loads(line) for line in SHARED.read_text().split("\n") if line]
    known = {vector["name"]: vector for vector in VECTORS}
    checked = 0
    for case in cases:
        if case["family"] != "5-yaml-policy":
            continue
        for variant, snippet in case["input"]["variants"].items():
            vector = known[f"{case['id']} {variant}"]
            assert vector["yaml"] == snippet
            assert case["expect"][variant].startswith(vector["verdict"])
            checked += 1
    assert checked >= 31
