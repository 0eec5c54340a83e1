"""`SchemaArithmetic` with jsonschema-rs: the domain's steps, the prover in its worker, validators, remembered answers.

| what is remembered | for how long                                                                               |
|--------------------|--------------------------------------------------------------------------------------------|
| validators         | the last `_VALIDATORS` that were used                                                      |
| answers            | the last `_ANSWERS` in memory; for ever in the file, where there is one                       |
| that a limit was met | a minute, and never in the file: another time the machine may be less busy                   |

A witness out of the file is shown to the validators again before it is handed out.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Final, Generic, TypeVar

import jsonschema_rs

import broker.domain
import broker.domain.schema
import broker.engines
import broker.services
from broker.adapters.schemas.prover import Prover, Stopped
from broker.adapters.schemas.remembered import RememberedAnswers
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract import ContractError
from broker.domain.schema.answers import Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.common import common
from broker.domain.schema.proof import Accepts, Proved
from broker.domain.schema.relate import relate
from broker.engines.schemas import compile_schema

_VALIDATORS: Final = 512
_ANSWERS: Final = 8_192
_STOPPED_SECONDS: Final = 60
_ENCODED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_Value = TypeVar("_Value")


def open_arithmetic(cache: Path | None) -> Arithmetic:
    """Arithmetic on schemas; `cache` is a folder for answers that outlive the process. Close it when done."""
    return Arithmetic(RememberedAnswers(cache, _identity()) if cache is not None else None)


class Arithmetic:
    """Implements `SchemaArithmetic`. May be shared between threads; asking blocks, at most for a few limits of the prover."""

    def __init__(self, remembered: RememberedAnswers | None = None, *, prover: Prover | None = None) -> None:
        self._prover = prover or Prover()
        self._remembered = remembered
        self._validators: _Recent[Accepts | Blocker] = _Recent(_VALIDATORS)
        self._answers: _Recent[tuple[tuple[Answer, ...], float]] = _Recent(_ANSWERS)

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        lost, gained = self._answered("relate", (old, new), self._relate, self._confirms_relation)
        return Related(lost, gained)

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        (answer,) = self._answered("common", schemas, self._common, self._confirms_common)
        return answer

    def accepts(self, schema: JsonObject, value: JsonValue) -> bool:
        accepts = self.compiled(schema)
        return not isinstance(accepts, Blocker) and accepts(value)

    def close(self) -> None:
        """End the prover's process. What is remembered can still be asked for."""
        self._prover.close()

    # What the domain's steps ask for.

    def included(self, old: JsonObject, new: JsonObject) -> Proved:
        """Inclusion, both ways, as far as it is proved."""
        answer = self._prover.ask("included", (old, new))
        if isinstance(answer, Stopped):
            return Proved(stopped=answer.why)
        match answer:
            case [lost, gained]:
                return Proved(lost=lost is True, gained=gained is True)
        return Proved()

    def empty(self, schemas: Sequence[JsonObject]) -> tuple[bool, str]:
        """Whether it is proved that no value is accepted by all."""
        answer = self._prover.ask("empty", schemas)
        return (False, answer.why) if isinstance(answer, Stopped) else (answer is True, "")

    def difference(self, one: JsonObject, other: JsonObject) -> JsonObject | None:
        """What one accepts and the other refuses, as a schema to search in."""
        answer = self._prover.ask("difference", (one, other))
        return answer if isinstance(answer, dict) else None

    def compiled(self, schema: JsonObject) -> Accepts | Blocker:
        """The validator of a schema, or what stands in its way."""
        spelled = _spelled(schema)
        if spelled is None:
            return Blocker("", "", "it cannot be written as JSON")
        known = self._validators.get(spelled)
        if known is None:
            known = _compiled(schema)
            self._validators.put(spelled, known)
        return known

    # Remembering.

    def _answered(
        self,
        operation: str,
        schemas: Sequence[JsonObject],
        ask: Callable[[Sequence[JsonObject]], tuple[Answer, ...]],
        confirms: Callable[[Sequence[JsonObject], tuple[Answer, ...]], bool],
    ) -> tuple[Answer, ...]:
        key = _key(operation, schemas)
        if key is None:
            unknown = Unknown((Blocker("", "", "it cannot be written as JSON"),))
            return (unknown, unknown) if operation == "relate" else (unknown,)
        known = self._answers.get(key)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        if self._remembered is not None:
            read = _read(self._remembered.get(key))
            if read is not None and confirms(schemas, read):
                self._answers.put(key, (read, float("inf")))
                return read
        answers = ask(schemas)
        if _is_lasting(answers):
            self._answers.put(key, (answers, float("inf")))
            if self._remembered is not None:
                self._remembered.put(key, _written(answers))
        else:
            self._answers.put(key, (answers, time.monotonic() + _STOPPED_SECONDS))
        return answers

    def _relate(self, schemas: Sequence[JsonObject]) -> tuple[Answer, ...]:
        related = relate(schemas[0], schemas[1], self)
        return related.lost, related.gained

    def _common(self, schemas: Sequence[JsonObject]) -> tuple[Answer, ...]:
        return (common(schemas, self),)

    def _confirms_relation(self, schemas: Sequence[JsonObject], answers: tuple[Answer, ...]) -> bool:
        if len(answers) != 2:
            return False
        (old, new), (lost, gained) = schemas, answers
        return all(
            not isinstance(answer, Yes) or (self.accepts(one, answer.witness) and self._refuses(other, answer.witness))
            for answer, one, other in ((lost, old, new), (gained, new, old))
        )

    def _confirms_common(self, schemas: Sequence[JsonObject], answers: tuple[Answer, ...]) -> bool:
        return len(answers) == 1 and all(
            not isinstance(answer, Yes) or all(self.accepts(schema, answer.witness) for schema in schemas)
            for answer in answers
        )

    def _refuses(self, schema: JsonObject, value: JsonValue) -> bool:
        accepts = self.compiled(schema)
        return not isinstance(accepts, Blocker) and not accepts(value)


class _Recent(Generic[_Value]):
    """The values used last, by key; safe between threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[str, _Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> _Value | None:
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def put(self, key: str, value: _Value) -> None:
        with self._lock:
            self._held[key] = value
            if len(self._held) > self._limit:
                self._held.popitem(last=False)


def _compiled(schema: JsonObject) -> Accepts | Blocker:
    try:
        return compile_schema(schema, "").is_valid
    except ContractError as error:
        pointer, _, why = str(error).partition(": ")
        where, _, keyword = pointer.rpartition("/")
        return Blocker(keyword, where, why or str(error))


def _spelled(schema: JsonValue) -> str | None:
    try:
        return _ENCODED(schema)
    except (RecursionError, ValueError, TypeError):
        return None


def _key(operation: str, schemas: Sequence[JsonObject]) -> str | None:
    spelled = _spelled([operation, *schemas])
    return None if spelled is None else sha256(spelled.encode()).hexdigest()[:32]


def _is_lasting(answers: tuple[Answer, ...]) -> bool:
    """Whether the answer would be the same at another time: it met no limit."""
    return not any(
        isinstance(answer, Unknown) and any(not b.keyword and not b.pointer for b in answer.blockers)
        for answer in answers
    )


def _written(answers: tuple[Answer, ...]) -> JsonValue:
    made: list[JsonValue] = []
    for answer in answers:
        match answer:
            case Yes(witness):
                made.append({"yes": witness})
            case No(by):
                made.append({"no": by})
            case Unknown(blockers):
                made.append({"unknown": [[b.keyword, b.pointer, b.why, b.side] for b in blockers]})
    return made


def _read(written: JsonValue) -> tuple[Answer, ...] | None:
    if not isinstance(written, list):
        return None
    made: list[Answer] = []
    for answer in written:
        match answer:
            case {"yes": witness}:
                made.append(Yes(witness))
            case {"no": str(by)}:
                made.append(No(by))
            case {"unknown": [*blockers]} if all(isinstance(b, list) and len(b) == 4 for b in blockers):
                made.append(Unknown(tuple(Blocker(*map(str, b)) for b in blockers if isinstance(b, list))))
            case _:
                return None
    return tuple(made)


def open_found_before(cache: Path) -> RememberedAnswers:
    """What the rules found about tools, in the same folder; it rests on all of the domain and the services."""
    return RememberedAnswers(cache, _identity(broker.domain, broker.engines, broker.services), name="found")


def _identity(*packages: ModuleType) -> str:
    """The code that answers and the library that proves."""
    digest = sha256(f"{version('jsonschema-rs')} {jsonschema_rs.__file__ is not None}".encode())
    for package in packages or (broker.domain.schema, broker.engines):
        for folder in sorted(package.__path__):
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
