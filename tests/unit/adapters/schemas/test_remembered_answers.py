"""The file of answers: shared, torn, changed by others or too large, it costs time and never an answer."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256

import pytest
from broker.adapters.schemas import remembered
from broker.adapters.schemas.remembered import RememberedAnswers


def key(name: object) -> str:
    return sha256(str(name).encode()).hexdigest()[:32]


def only_file(folder):
    (path,) = folder.glob("answers-*")
    return path


def write_many(folder, first: int) -> None:
    answers = RememberedAnswers(folder, "v1")
    for number in range(first, first + 200):
        answers.put(key(number), {"yes": number})


def test_an_answer_is_there_for_the_next_process(tmp_path):
    RememberedAnswers(tmp_path, "v1").put(key("a"), [{"yes": {"mode": "write"}}, {"no": "cover"}])
    assert RememberedAnswers(tmp_path, "v1").get(key("a")) == [{"yes": {"mode": "write"}}, {"no": "cover"}]
    assert RememberedAnswers(tmp_path, "v1").get(key("b")) is None


def test_other_code_does_not_take_answers_over(tmp_path):
    RememberedAnswers(tmp_path, "v1").put(key("a"), True)
    assert RememberedAnswers(tmp_path, "v2").get(key("a")) is None


def test_folder_and_file_are_the_owners_alone(tmp_path):
    folder = tmp_path / "new" / "cache"
    RememberedAnswers(folder, "v1").put(key("a"), True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert only_file(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("opened", ["file", "folder"])
def test_what_others_could_have_written_is_not_believed(tmp_path, opened):
    RememberedAnswers(tmp_path, "v1").put(key("a"), True)
    (only_file(tmp_path) if opened == "file" else tmp_path).chmod(0o777)
    assert RememberedAnswers(tmp_path, "v1").get(key("a")) is None


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path):
    RememberedAnswers(tmp_path, "v1").put(key("a"), True)
    path = only_file(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    answers = RememberedAnswers(tmp_path, "v1")
    assert answers.get(key("a")) is None
    answers.put(key("b"), True)
    assert key("b") not in (tmp_path / "elsewhere").read_text()


def test_a_torn_line_costs_that_line(tmp_path):
    first = RememberedAnswers(tmp_path, "v1")
    first.put(key("a"), "one")
    first.put(key("b"), "two")
    path = only_file(tmp_path)
    os.truncate(path, path.stat().st_size - 3)
    second = RememberedAnswers(tmp_path, "v1")
    assert (second.get(key("a")), second.get(key("b"))) == ("one", None)
    second.put(key("c"), "three")
    third = RememberedAnswers(tmp_path, "v1")
    assert (third.get(key("a")), third.get(key("c"))) == ("one", "three")


def test_a_changed_answer_is_not_believed(tmp_path):
    RememberedAnswers(tmp_path, "v1").put(key("a"), {"no": "cover"})
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"cover", b"clove"))
    assert RememberedAnswers(tmp_path, "v1").get(key("a")) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff\xfe\n\n\n", b"x" * 100_000, os.urandom(10_000)])
def test_any_content_is_a_fresh_start(tmp_path, content):
    RememberedAnswers(tmp_path, "v1").put(key("a"), True)
    only_file(tmp_path).write_bytes(content)
    answers = RememberedAnswers(tmp_path, "v1")
    assert answers.get(key("a")) is None
    answers.put(key("a"), False)
    assert RememberedAnswers(tmp_path, "v1").get(key("a")) is False


def test_a_folder_that_cannot_be_made_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    answers = RememberedAnswers(tmp_path / "file" / "below", "v1")
    answers.put(key("a"), True)
    assert answers.get(key("a")) is None


def test_processes_write_at_the_same_time_and_nothing_is_lost(tmp_path):
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(write_many, [tmp_path] * 4, [0, 200, 400, 600]))
    answers = RememberedAnswers(tmp_path, "v1")
    assert [answers.get(key(number)) for number in range(800)] == [{"yes": number} for number in range(800)]


def test_over_its_size_the_newer_half_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "MAX_BYTES", 20_000)
    writer = RememberedAnswers(tmp_path, "v1")
    for number in range(400):
        writer.put(key(number), {"yes": number})
    RememberedAnswers(tmp_path, "v1")  # opening shortens
    assert only_file(tmp_path).stat().st_size <= 10_000
    answers = RememberedAnswers(tmp_path, "v1")
    assert answers.get(key(399)) == {"yes": 399}
    assert answers.get(key(0)) is None
    writer.put(key("late"), True)
    assert RememberedAnswers(tmp_path, "v1").get(key("late")) is True


def test_files_of_older_code_go_in_the_end(tmp_path):
    for number in range(6):
        RememberedAnswers(tmp_path, f"v{number}").put(key("a"), number)
    assert len(list(tmp_path.glob("answers-*"))) <= 4
    assert RememberedAnswers(tmp_path, "v5").get(key("a")) == 5
