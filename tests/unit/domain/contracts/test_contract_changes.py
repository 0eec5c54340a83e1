"""What changed from one contract to the next, and the class of it."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import pytest
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.contracts.contract import ContractError, ToolContract, parse_contract
from broker.domain.contracts.contract_changes import ChangeClass, classify, contract_changes
from broker.domain.schema.answers import SAME, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.bare import bare, text
from broker.domain.schema.change_words import words
from broker.domain.schema.changes import Effect
from broker.domain.schema.closure import accepted_inputs

PAIRS = Path(__file__).parents[5] / "shared" / "data" / "mcp_contract_pairs.jsonl"
LOST = Related(Yes({"x": 1}), No("cover"))
MAX_MEDIAN_SECONDS = 0.002


def contract(description: str = "Reads.", *, name: str = "t", output=None, annotations=None, **x) -> ToolContract:
    members = {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {"x": x or {"type": "string"}}},
        "outputSchema": output,
        "annotations": annotations,
    }
    return parse_contract({member: value for member, value in members.items() if value is not None})


def classed(old: ToolContract, new: ToolContract, closed: Related) -> ChangeClass:
    return classify(contract_changes(old, new), closed)


def said(old: ToolContract, new: ToolContract) -> list[str]:
    return [words(change) for change in contract_changes(old, new)]


def test_nothing_changed():
    assert classed(contract(), contract(), SAME) is ChangeClass.NONE


@pytest.mark.parametrize(
    "new",
    [
        contract("Reads and writes."),
        contract(annotations={"readOnlyHint": False}),
        contract(type="string", description="A path."),
        contract(type="string", default="a"),
        contract(type="string", format="uri"),
    ],
    ids=["description", "annotation", "property description", "default", "format"],
)
def test_words_alone_are_semantic_whatever_the_relation_could_decide(new):
    unknown = Unknown((Blocker("pattern", "", "not decided"),))
    assert classed(contract(), new, SAME) is ChangeClass.SEMANTIC_ONLY
    assert classed(contract(), new, Related(unknown, unknown)) is ChangeClass.SEMANTIC_ONLY


def test_inputs_that_are_lost_break_callers_and_so_does_what_is_not_proved():
    new = contract(type="string", maxLength=3)
    assert classed(contract(), new, LOST) is ChangeClass.BREAKING
    undecided = Related(Unknown((Blocker("maxLength", "", "not decided"),)), No("cover"))
    assert classed(contract(), new, undecided) is ChangeClass.BREAKING
    assert classed(contract(), new, Related(No("cover"), No("cover"))) is ChangeClass.COMPATIBLE


def test_a_tool_with_another_name_is_renamed_and_the_output_says_whom_that_stops():
    old, new = contract(), contract(name="u")
    assert classed(old, new, SAME) is ChangeClass.RENAMED
    assert said(old, new) == [
        "the tool `t` is called `u` now: clients that allow tools by exact names stop calling it, without an error"
    ]


def test_a_renamed_property_alone_is_renamed_and_with_more_it_is_breaking():
    def with_property(name: str, **schema) -> ToolContract:
        members = {"name": "t", "inputSchema": {"type": "object", "properties": {name: {"type": "integer", **schema}}}}
        return parse_contract(members)

    old = with_property("timeoutMs")
    assert classed(old, with_property("timeout_ms"), LOST) is ChangeClass.RENAMED
    assert classed(old, with_property("timeout_ms", maximum=5), LOST) is ChangeClass.BREAKING


# (the old words about x, the constraint that x carries now)
STATED = [
    ("One of: read, write.", {"enum": ["read", "write"]}),
    ("At most 100 rows.", {"maximum": 100}),
    ("How many (1-100).", {"minimum": 1}),
    ("Up to 1,000 characters.", {"maxLength": 1000}),
    ("Must start with a slash.", {"pattern": "^/"}),
    ("Must not be empty.", {"minLength": 1}),
]
NOT_STATED = [
    ("The mode, such as read.", {"enum": ["read", "write"]}),
    ("At most 1000 rows.", {"maximum": 100}),
    ("See RFC 100.", {"maximum": 100}),
    ("The path.", {"pattern": "^/"}),
]


@pytest.mark.parametrize(("description", "constraint"), STATED)
def test_a_rule_of_the_description_that_is_a_constraint_now_was_prose(description, constraint):
    old, new = contract(description=description), contract(description=description)
    old.members["inputSchema"]["properties"]["x"] = {"description": description}
    new.members["inputSchema"]["properties"]["x"] = {"description": description, **constraint}
    assert classed(old, new, LOST) is ChangeClass.PROSE_BECAME_STRUCTURE
    assert said(old, new)[0].endswith(f'(the description already said: "{description}")')


@pytest.mark.parametrize(("description", "constraint"), NOT_STATED)
def test_words_that_do_not_state_the_rule_leave_it_breaking(description, constraint):
    old, new = contract(), contract()
    old.members["inputSchema"]["properties"]["x"] = {"description": description}
    new.members["inputSchema"]["properties"]["x"] = {"description": description, **constraint}
    assert classed(old, new, LOST) is ChangeClass.BREAKING


def test_that_an_argument_is_required_may_have_stood_in_words():
    old, new = contract(), contract()
    old.members["inputSchema"]["properties"]["x"] = {"description": "The path. Required."}
    new.members["inputSchema"] = {**old.members["inputSchema"], "required": ["x"]}
    assert classed(old, new, LOST) is ChangeClass.PROSE_BECAME_STRUCTURE


def test_a_reader_of_the_output_breaks_where_it_may_meet_what_it_does_not_know():
    narrow = {"type": "object", "properties": {"state": {"enum": ["on"]}}, "required": ["state"]}
    wide = {"type": "object", "properties": {"state": {"enum": ["on", "off"]}}, "required": ["state"]}
    assert classed(contract(output=narrow), contract(output=wide), SAME) is ChangeClass.BREAKING
    assert classed(contract(output=wide), contract(output=narrow), SAME) is ChangeClass.COMPATIBLE
    assert classed(contract(output=wide), contract(), SAME) is ChangeClass.BREAKING
    assert classed(contract(), contract(output=wide), SAME) is ChangeClass.COMPATIBLE


def test_pointers_lead_into_the_whole_contract():
    (change,) = contract_changes(contract(), contract(type="string", maxLength=3))
    assert (change.pointer_old, change.pointer_new) == (None, "/inputSchema/properties/x/maxLength")


def real_pairs() -> list[tuple[ToolContract, ToolContract]]:
    if not PAIRS.is_file():
        pytest.skip("the folder ../shared/data is not here")
    found = []
    for line in PAIRS.read_text().splitlines():
        pair = json.loads(line)
        try:
            old, new = (
                parse_contract({key: value for key, value in pair[side].items() if value is not None})
                for side in ("old", "new")
            )
        except ContractError:
            continue
        found.append((old, new))
    return found


@pytest.mark.shared
def test_every_real_change_is_listed_and_classed_in_little_time(capsys):
    arithmetic = open_arithmetic(None)
    seconds: list[float] = []
    classes: dict[str, int] = {}
    stated: list[str] = []
    try:
        for old, new in real_pairs():
            started = time.perf_counter()
            changes = contract_changes(old, new)
            seconds.append(time.perf_counter() - started)
            closed = arithmetic.relate(accepted_inputs(old.input_schema), accepted_inputs(new.input_schema))
            counting = [change for change in changes if change.effect not in (Effect.WORDS, Effect.NEITHER)]
            if isinstance(closed.lost, Yes) or isinstance(closed.gained, Yes):
                assert counting, (old.name, closed)
            found = classify(changes, closed)
            alike = [text(bare(one.input_schema)) for one in (old, new)]
            outputs = [one.members.get("outputSchema") for one in (old, new)]
            if alike[0] == alike[1] and outputs[0] == outputs[1] and old.name == new.name:
                assert found in (ChangeClass.SEMANTIC_ONLY, ChangeClass.NONE)
            assert all(words(change).isprintable() for change in changes)
            classes[found.value] = classes.get(found.value, 0) + 1
            stated += [f"{old.name}: {words(change)}" for change in changes if change.prose]
    finally:
        arithmetic.close()
    with capsys.disabled():
        print(f"\nclasses of {len(seconds)} real changes: {classes}; rules that had stood in words: {len(stated)}")
    assert len(stated) >= 5
    assert statistics.median(seconds) < MAX_MEDIAN_SECONDS
