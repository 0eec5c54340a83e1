"""What the arithmetic remembers, and that it believes no remembered witness unseen."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.adapters.schemas.prover import Prover
from broker.adapters.schemas.remembered import RememberedAnswers
from broker.domain.schema.answers import No, Related, Unknown, Yes

OLD = {"type": "object", "properties": {"mode": {"enum": ["read", "write"]}}, "unevaluatedProperties": False}
NEW = {"type": "object", "properties": {"mode": {"enum": ["read"]}}, "unevaluatedProperties": False}
ANSWER = Related(Yes({"mode": "write"}), No("cover"))


class Silent(Prover):
    """A prover that must not be needed."""

    def ask(self, operation, schemas):
        raise AssertionError(f"{operation} was asked again")


def test_an_answer_is_given_again_without_the_prover(tmp_path):
    first = open_arithmetic(tmp_path)
    assert first.relate(OLD, NEW) == ANSWER
    first.close()
    second = open_arithmetic(tmp_path)
    second._prover = Silent()
    assert second.relate(OLD, NEW) == ANSWER
    second.close()


def test_a_remembered_witness_that_shows_nothing_is_worked_out_afresh(tmp_path):
    file = RememberedAnswers(tmp_path, "v")
    teller = Arithmetic(file)
    teller.relate(OLD, NEW)
    (name,) = file._known
    for lie in ({"mode": "read"}, {"mode": "delete"}):
        file.put(name, [{"yes": lie}, {"no": "cover"}])
        asked = Arithmetic(RememberedAnswers(tmp_path, "v"))
        assert asked.relate(OLD, NEW) == ANSWER
        asked.close()
    teller.close()


@pytest.mark.parametrize(
    "nonsense", [{}, [], [1, 2], [{"no": 3}, {"no": "x"}], [{"unknown": [["a"]]}, {"no": "x"}], "no", 7]
)
def test_a_remembered_answer_of_another_form_is_none(tmp_path, nonsense):
    file = RememberedAnswers(tmp_path, "v")
    teller = Arithmetic(file)
    teller.relate(OLD, NEW)
    (name,) = file._known
    file.put(name, nonsense)
    asked = Arithmetic(RememberedAnswers(tmp_path, "v"))
    assert asked.relate(OLD, NEW) == ANSWER
    asked.close()
    teller.close()


def test_unknown_is_remembered_with_what_stood_in_the_way(tmp_path):
    schemas = {"pattern": "^\\d+$"}, {"pattern": "^[0-9]+$"}
    first = open_arithmetic(tmp_path)
    related = first.relate(*schemas)
    first.close()
    second = open_arithmetic(tmp_path)
    assert isinstance(related.lost, Unknown)
    assert second.relate(*schemas) == related
    second.close()


def test_a_limit_that_was_met_is_not_remembered_for_ever(tmp_path):
    prover = Prover(seconds=1)
    asked = Arithmetic(RememberedAnswers(tmp_path, "v"), prover=prover)
    prover.ask("included", [{}, {}])
    os.kill(prover.process_id, signal.SIGSTOP)
    hard = {"not": {"required": ["a"]}, "minProperties": 1}
    related = asked.relate(hard, {**hard, "$defs": {}, "properties": {"b": {"not": {"not": {}}}}})
    assert isinstance(related.lost, Unknown)
    assert related.lost.blockers[0].why == "the proof took longer than 1 seconds"
    asked.close()
    later = Arithmetic(RememberedAnswers(tmp_path, "v"))
    assert later.relate(hard, {**hard, "$defs": {}, "properties": {"b": {"not": {"not": {}}}}}).lost == No("cover")
    later.close()


def test_threads_get_the_answers_of_one(tmp_path):
    arithmetic = open_arithmetic(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: arithmetic.relate({**OLD, "minProperties": n % 2}, NEW), range(64)))
    assert {json.dumps(answer.lost.witness) for answer in answers} == {'{"mode": "write"}'}
    arithmetic.close()


def test_order_of_members_and_of_questions_is_respected(tmp_path):
    arithmetic = open_arithmetic(tmp_path)
    assert arithmetic.relate(OLD, NEW) == ANSWER
    assert arithmetic.relate(NEW, OLD) == Related(ANSWER.gained, ANSWER.lost)
    assert arithmetic.relate(dict(reversed(OLD.items())), NEW) == ANSWER
    arithmetic.close()


def test_a_schema_that_was_changed_since_is_another_question(tmp_path):
    arithmetic = open_arithmetic(tmp_path)
    changing = json.loads(json.dumps(OLD))
    assert arithmetic.relate(changing, NEW) == ANSWER
    changing["properties"]["mode"]["enum"] = ["read"]
    assert arithmetic.relate(changing, NEW).lost == No("same text")
    arithmetic.close()


def test_a_remembered_question_takes_no_time(tmp_path):
    first = open_arithmetic(tmp_path)
    first.relate(OLD, NEW)
    first.close()
    second = open_arithmetic(tmp_path)
    second.relate(OLD, NEW)
    best = min(_seconds(lambda: second.relate(OLD, NEW)) for _ in range(200))
    assert best < 100e-6
    second.close()


def _seconds(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
