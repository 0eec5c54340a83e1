"""`exceptions.yaml` with one more entry, everything else in it untouched: comments, order, quotes, line ends.

1. The entry is put behind the last one, with its indentation. A list in brackets is left alone: it has no place to append to.
2. What was made is read again before it is written: the entries from before, in order, and the new one; nothing else.
3. The file is exchanged whole, under its own rights. Where it is a link, what it leads to is exchanged.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from broker.adapters.policyfile.document import MAX_BYTES, read_document
from broker.adapters.policyfile.folder import EXCEPTIONS
from broker.domain.errors import ConfigurationError
from broker.domain.policy.exceptions import PolicyException, parse_exceptions
from broker.domain.policy.form import EXCEPTIONS_FILE
from broker.domain.policy.located import Problems
from broker.domain.policy.shape import conform


def read_exceptions_file(folder: Path) -> str:
    """The text of the file; empty where there is none. Raises `ConfigurationError`."""
    path = folder / EXCEPTIONS
    try:
        if not path.exists() and not path.is_symlink():
            return ""
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def with_exception(text: str, added: PolicyException) -> str:
    """The text with one more entry. Raises `ConfigurationError` where it would not be what it was, and the entry."""
    before = _entries(text) if text.strip() else ()
    if before is None:
        raise ConfigurationError(f"{EXCEPTIONS} cannot be read; `broker policy check` says why")
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = _spelled(added, _indentation(text, before))
    head = text if text.strip() else "exceptions:\n"
    ended = head if head.endswith("\n") else head + newline
    made = ended + newline.join([*lines, ""])
    after = _entries(made)
    if after is None or [_plain(one) for one in after] != [*map(_plain, before), _plain(added)]:
        raise ConfigurationError(
            f"nothing can be put behind the last entry of {EXCEPTIONS}, or the entry is none; "
            f"write it yourself:{''.join(f'{newline}{line}' for line in lines)}"
        )
    return made


def write_exceptions_file(folder: Path, text: str) -> None:
    """Exchange the file. Raises `ConfigurationError`."""
    path = (folder / EXCEPTIONS).resolve()
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".exceptions-", delete=False) as file:
            try:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


def _entries(text: str) -> tuple[PolicyException, ...] | None:
    problems = Problems()
    root = read_document(text.encode(), file=EXCEPTIONS, problems=problems)
    if root is None:
        return None
    conformed = conform(EXCEPTIONS_FILE, root, problems)
    return None if problems.found else parse_exceptions(conformed)


def _indentation(text: str, entries: tuple[PolicyException, ...]) -> str:
    """What stands before the dash of the last entry."""
    if not entries:
        return "  "
    line = text.splitlines()[entries[-1].node.line - 1]
    return line[: len(line) - len(line.lstrip(" "))] if line.lstrip(" ").startswith("-") else "  "


def _spelled(added: PolicyException, indent: str) -> list[str]:
    said = {
        "rule": added.rule,
        "tool": added.tool,
        "version": added.version,
        **({"key": added.key} if added.key is not None else {}),
        "reason": added.reason,
    }
    lines = [f"{name}: {value if name == 'rule' else _quoted(value)}" for name, value in said.items()]
    lines.append(f"approved_by: [{', '.join(map(_quoted, added.approved_by))}]")
    lines.append(f"expires: {_quoted(added.expires)}")
    return [f"{indent}{'- ' if index == 0 else '  '}{line}" for index, line in enumerate(lines)]


def _quoted(text: str) -> str:
    # A JSON string is a YAML one.
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _plain(one: PolicyException) -> tuple[object, ...]:
    return (one.rule, one.tool, one.version, one.key, one.reason, one.approved_by, one.expires)
