"""A policy folder at its beginning: what is there, and new files beside it.

1. Files are read as the reader of policies reads them; what is unreadable there is said there, and stops nothing here but is not
   taken for absent.
2. All names are looked at before anything is written. A file is created, never followed into another; one that is to be
   overwritten is exchanged whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from broker.adapters.policyfile.document import MAX_BYTES, read_document
from broker.domain.errors import ConfigurationError
from broker.domain.ids import ToolName
from broker.domain.policy.located import Located, PolicyInvalidError, Problems
from broker.domain.policy.parse_trust import Trust, parse_trust


def existing_trust(folder: Path) -> Trust | None:
    """What `trust.yaml` says; None where there is none. Raises `PolicyInvalidError` where it is not lawful."""
    problems = Problems()
    root = _read(folder, "trust.yaml", problems)
    trust = parse_trust(root, base=str(folder.absolute()), problems=problems) if root is not None else None
    if problems.found:
        raise PolicyInvalidError(tuple(problems.found))
    return trust


def existing_versions(folder: Path) -> Mapping[ToolName, Mapping[str, str]]:
    """By tool, the versions of its file and the digests they state. Raises `PolicyInvalidError` where one is unreadable."""
    found: dict[ToolName, Mapping[str, str]] = {}
    problems = Problems()
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        if name.startswith(".") or not name.endswith(".yaml") or name in ("trust.yaml", "exceptions.yaml"):
            continue
        root = _read(folder, name, problems)
        versions = root.get("versions") if root is not None else None
        entries = versions.entries() if versions is not None else {}
        found[ToolName(name.removesuffix(".yaml"))] = {
            number: entry.value.text("digest") or "" for number, entry in entries.items()
        }
    if problems.found:
        raise PolicyInvalidError(tuple(problems.found))
    return found


def write_files(folder: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write new files. Raises `ConfigurationError`, having written nothing, where one is there and `force` is not given."""
    there = [name for name, text in files.items() if _differs(folder / name, text)]
    if there and not force:
        more = f" and {len(there) - 3} more" if len(there) > 3 else ""
        raise ConfigurationError(f"{', '.join(there[:3])}{more} would be overwritten; --force does that")
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.new")
            beside.unlink(missing_ok=True)
            with beside.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.replace(beside, path)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: {error.strerror}; name a folder that can be written") from None


def _differs(path: Path, text: str) -> bool:
    if not path.exists() and not path.is_symlink():
        return False
    try:
        return path.is_symlink() or not path.is_file() or path.read_bytes() != text.encode()
    except OSError:
        return True


def _read(folder: Path, name: str, problems: Problems) -> Located | None:
    path = folder / name
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return read_document(file.read(MAX_BYTES + 1), file=name, problems=problems)
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
