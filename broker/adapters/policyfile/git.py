"""A policy folder as it was at another commit, read out of git without touching the worktree.

1. `REF` is the commit that the name stands for now; `REF...` is where HEAD parted from it (`git merge-base`), so that what was
   published there since then does not look as if it had been taken away here.
2. The folder at that commit is the one at the same path from the top of the repository. A folder that was not there: None; so is
   one of a HEAD before its first commit.
3. Only what policy is read from is taken: YAML and JSON. A link or a submodule is refused, since what it leads to is not in
   the tree; so is a tree that is too large.
4. A name that stands for a branch and for a tag is refused: who may push a tag must not choose what is compared with.
5. Objects are read as they are stored: no filters, no attributes, no replacements, nothing fetched.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.adapters.policyfile.document import MAX_BYTES
from broker.domain.errors import ConfigurationError

MAX_FILES: Final = 20_000
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
_SECONDS: Final = 60
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_OBJECTS: Final = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
_FORKED: Final = "..."


@dataclass(frozen=True, slots=True)
class OldFolder:
    """commit: what the ref stands for. folder: where its files lie for now; None where the folder was not there."""

    commit: str
    folder: Path | None


@contextmanager
def old_folder(folder: Path, ref: str) -> Iterator[OldFolder]:
    """The folder at another commit, for as long as the context is open. Raises `ConfigurationError`."""
    if ref == "HEAD" and _is_unborn(folder):
        yield OldFolder("no commit yet", None)
        return
    commit = _commit(folder, ref)
    prefix = _git(folder, "rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n").rstrip("/")
    tree = _found(folder, f"{commit}:{prefix}")
    if tree is None:
        yield OldFolder(commit, None)
        return
    if _git(folder, "cat-file", "-t", tree).strip() != b"tree":
        raise ConfigurationError(f"{ref} has a file where the policy folder is: {prefix}")
    names = _listed(folder, tree, ref)
    with tempfile.TemporaryDirectory(prefix="mayfly-base-") as made:
        _write(Path(made), names, _contents(folder, names))
        yield OldFolder(commit, Path(made))


def place_in_repository(folder: Path) -> str | None:
    """The folder's path from the top of its repository, `""` for the top itself; None outside of any."""
    try:
        return _git(folder, "rev-parse", "--show-prefix").decode("utf-8", "replace").rstrip("\n").rstrip("/")
    except ConfigurationError:
        return None


def is_commit(folder: Path, ref: str) -> bool:
    """Whether the folder's repository has a commit of this name."""
    try:
        return bool(_commit(folder, ref))
    except ConfigurationError:
        return False


def _commit(folder: Path, ref: str) -> str:
    name = ref.removesuffix(_FORKED)
    if not name or name.startswith("-") or ":" in name or not name.isprintable():
        raise ConfigurationError(
            f"{ref!r} names no commit: a branch, a tag or a commit was expected, such as origin/main"
        )
    _git(folder, "rev-parse", "--git-dir")
    commit = _found(folder, f"{name}^{{commit}}")
    if commit is None:
        raise ConfigurationError(
            f"git knows no commit {name} here; fetch it first (a shallow clone has only the last one: fetch-depth: 0)"
        )
    _git(folder, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")  # says where a name is ambiguous
    if name == ref:
        return commit
    bases = _git(folder, "merge-base", "--all", commit, "HEAD", refused=b"").split()
    if len(bases) != 1:
        said = "no commit in common" if not bases else f"{len(bases)} commits at which they may have parted"
        raise ConfigurationError(f"{name} and HEAD have {said}; name the commit to compare with")
    return bases[0].decode()


def _is_unborn(folder: Path) -> bool:
    """Whether the repository has its first commit before it."""
    on_branch = _git(folder, "symbolic-ref", "--quiet", "HEAD", refused=b"")
    return bool(on_branch) and _found(folder, "HEAD^{commit}") is None


def _found(folder: Path, name: str) -> str | None:
    """The object that a name stands for."""
    answer = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", name, refused=b"")
    return answer.decode().strip() or None


def _listed(folder: Path, tree: str, ref: str) -> dict[str, tuple[str, int]]:
    """By path, object and size of the files that policy is read from."""
    made: dict[str, tuple[str, int]] = {}
    for entry in _git(folder, "ls-tree", "-r", "-z", "--long", "--full-tree", tree).split(b"\0"):
        if not entry:
            continue
        about, _, raw = entry.partition(b"\t")
        mode, _, name, size = about.split()
        path = raw.decode("utf-8", "surrogateescape")
        parts = path.split("/")
        if any(part.startswith(".") for part in parts):
            continue
        if mode in (b"120000", b"160000"):
            what = "a symbolic link" if mode == b"120000" else "a submodule"
            raise ConfigurationError(
                f"{ref} has {what} in the policy folder: {path!r}; only files can be compared with"
            )
        if not path.endswith(_SUFFIXES) or parts[0] == "keys":
            continue
        # What is too large to be read keeps its size: the reader reports it.
        made[path] = (name.decode(), int(size))
    total = sum(min(size, MAX_BYTES + 1) for _, size in made.values())
    if len(made) > MAX_FILES or total > MAX_TOTAL_BYTES:
        raise ConfigurationError(
            f"{ref} has {len(made)} files and {total} bytes in the policy folder: that is too much"
        )
    return made


def _contents(folder: Path, names: Mapping[str, tuple[str, int]]) -> Mapping[str, bytes]:
    """By object, its bytes. One that is too large is left as so many blanks, which the reader refuses for its size."""
    objects = dict(names.values())
    wanted = [name for name, size in objects.items() if size <= MAX_BYTES]
    made = {name: b" " * (MAX_BYTES + 1) for name, size in objects.items() if size > MAX_BYTES}
    answer = _git(folder, "cat-file", "--batch", given="\n".join([*wanted, ""]).encode()) if wanted else b""
    at = 0
    for name in wanted:
        begin = answer.index(b"\n", at) + 1
        header = answer[at : begin - 1].split()
        if header != [name.encode(), b"blob", str(objects[name]).encode()]:
            raise ConfigurationError(f"git does not have the object {name}; a partial clone has to fetch it first")
        made[name] = answer[begin : begin + objects[name]]
        at = begin + objects[name] + 1
    return made


def _write(top: Path, names: Mapping[str, tuple[str, int]], contents: Mapping[str, bytes]) -> None:
    for name, (stored, _) in names.items():
        if not all(part not in ("", ".", "..") and "\0" not in part for part in name.split("/")):
            raise ConfigurationError(f"git has a file with the name {name!r}, which is no name for a file")
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[stored])


def _git(folder: Path, *words: str, given: bytes | None = None, refused: bytes | None = None) -> bytes:
    """What git prints. refused: what a no of git's means, where that is an answer."""
    # A hook runs with variables that point at what is being committed; this is about the folder's own repository.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_") or name in _OBJECTS
    }
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    always = ["--no-replace-objects", "--no-pager", "-c", "core.warnAmbiguousRefs=true"]
    command = ["git", *always, "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, input=given or b"", capture_output=True, env=environment, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise ConfigurationError("git is not installed; install it, or name a folder to compare with") from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"git gave no answer within {_SECONDS} seconds") from None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if any(line.endswith("is ambiguous.") for line in said):
        raise ConfigurationError("a branch and a tag have this name, or a commit: write refs/heads/… or refs/tags/…")
    if done.returncode == 0:
        return done.stdout
    if refused is not None and done.returncode == 1:
        return refused
    if any("not a git repository" in line for line in said):
        raise ConfigurationError(f"{folder} is in no git repository; name a folder to compare with")
    why = said[0].removeprefix("fatal: ") if said else f"it ended with {done.returncode}"
    raise ConfigurationError(f"git could not say what {words[0]} asked: {why}")
