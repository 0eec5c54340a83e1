"""Checking a policy folder by the rules, alone or against what it was: reads, composes, and says what was compared.

1. `base` is a folder where there is one of that name, else a commit of the folder's repository; a name that is both is refused.
2. A folder that the base does not have: everything is new, and `compared` says so.
3. A base that is no lawful policy compares with nothing: `ConfigurationError`, with the first of its problems.
4. Answers about schemas, and what was found about tools that did not change, outlive the process in `cache`, by default below
   the user's own cache folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from broker.adapters.policyfile.folder import load_tree
from broker.adapters.policyfile.git import is_commit, old_folder
from broker.adapters.schemas.arithmetic import open_arithmetic, open_found_before
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import ConfigurationError
from broker.domain.policy.findings import Report
from broker.domain.policy.located import PolicyInvalidError
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.answers import Answer, Related
from broker.ports.schemas import SchemaArithmetic
from broker.services.checking import PolicyChecker

LABEL: Final = "base"

Asked = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Base:
    """What is compared with. tree: None where the base does not have the folder. words: what it is, for people."""

    tree: PolicyTree | None
    words: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A folder and what the rules say of it."""

    tree: PolicyTree
    base: Base | None
    report: Report


def check_folder(
    folder: Path, *, base: str | None, with_keys: bool, cache: Path | None, asked: Asked | None = None
) -> Checked:
    """Check a folder. Raises `PolicyInvalidError` for what it holds, `ConfigurationError` for the base.

    asked: called before each question about schemas, for whoever shows that work is going on.
    """
    tree = load_tree(folder, with_keys=with_keys)
    compared = read_base(folder, base) if base is not None else None
    old = compared.tree if compared is not None else None
    with policy_checker(cache, asked) as checker:
        return Checked(tree, compared, checker.check(tree, base=old, today=today()))


@contextmanager
def policy_checker(cache: Path | None, asked: Asked | None = None) -> Iterator[PolicyChecker]:
    """A checker on the real arithmetic, for as long as the context is open."""
    arithmetic = open_arithmetic(cache)
    before = open_found_before(cache) if cache is not None else None
    try:
        yield PolicyChecker(arithmetic if asked is None else _Watched(arithmetic, asked), before=before)
    finally:
        arithmetic.close()


def read_base(folder: Path, base: str) -> Base:
    """The tree that a folder is compared with. Raises `ConfigurationError`."""
    path = Path(base)
    is_path = base.startswith(("/", "./", "../")) or base in (".", "..")
    if path.is_dir() and not is_path and is_commit(folder, base):
        raise ConfigurationError(
            f"{base} is a folder here and a commit in git: write ./{base} for the folder, or refs/heads/{base} for a branch"
        )
    if path.is_dir() or is_path:
        return Base(_lawful(path, f"the base {base}"), "another folder")
    with old_folder(folder, base) as old:
        words = f"{base} ({old.commit[:12]})"
        if old.folder is None:
            return Base(None, f"{words}, which does not have this folder: everything is new")
        return Base(_lawful(old.folder, f"the base {words}"), words)


def default_cache() -> Path | None:
    """Where answers are remembered, as the XDG rules say; None where there is no home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    if stated.startswith("/"):
        return Path(stated) / "mayfly-broker"
    try:
        return Path.home() / ".cache" / "mayfly-broker"
    except RuntimeError:
        return None


def today() -> str:
    """The day by which exceptions run out, UTC."""
    return datetime.now(UTC).date().isoformat()


def _lawful(folder: Path, name: str) -> PolicyTree:
    try:
        return load_tree(folder, with_keys=False, label=LABEL)
    except PolicyInvalidError as error:
        first, count = error.problems[0], len(error.problems)
        place = f"{first.file}:{first.line}:{first.column}" if first.line else first.file
        more = f" (and {count - 1} more)" if count > 1 else ""
        raise ConfigurationError(
            f"{name} is no lawful policy to compare with: {place}: {first.rule}: {first.message}{more}"
        ) from None


class _Watched:
    """Arithmetic that says when it is asked."""

    def __init__(self, arithmetic: SchemaArithmetic, asked: Asked) -> None:
        self._arithmetic = arithmetic
        self._asked = asked

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        self._asked()
        return self._arithmetic.relate(old, new)

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        self._asked()
        return self._arithmetic.common(schemas)

    def accepts(self, schema: JsonObject, value: JsonValue) -> bool:
        return self._arithmetic.accepts(schema, value)
