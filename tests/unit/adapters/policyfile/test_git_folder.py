"""A folder as it was at another commit, out of real repositories; the worktree is never touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from broker.adapters.policyfile import git as adapter
from broker.adapters.policyfile.git import is_commit, old_folder, place_in_repository
from broker.domain.errors import ConfigurationError

from git_parts import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "a repository")
    folder = made.folder / "my policies"
    (folder / "contracts" / "x").mkdir(parents=True)
    (folder / "trust.yaml").write_text("tenant: old\n")
    (folder / "contracts" / "x" / "ü 1.json").write_text('{"name": "x"}\n')
    (folder / "notes.txt").write_text("no policy\n")
    (folder / "keys").mkdir()
    (folder / "keys" / "idp.json").write_text("{}\n")
    made.commit()
    return made


def policies(repository: Repository) -> Path:
    return repository.folder / "my policies"


def files(folder: Path | None) -> dict[str, str]:
    assert folder is not None
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


OLD = {"trust.yaml": "tenant: old\n", "contracts/x/ü 1.json": '{"name": "x"}\n'}


def test_the_folder_is_read_as_it_was_and_gone_afterwards(repository: Repository):
    (policies(repository) / "trust.yaml").write_text("tenant: new\n")
    with old_folder(policies(repository), "HEAD") as old:
        assert files(old.folder) == OLD
        kept = old.folder
        assert kept is not None
        assert kept.stat().st_mode & 0o077 == 0
    assert not kept.exists()
    assert repository.git("status", "--porcelain", "-z") == "M my policies/trust.yaml\0"
    assert (policies(repository) / "trust.yaml").read_text() == "tenant: new\n"


@pytest.mark.parametrize("name", ["main", "HEAD", "refs/heads/main", "v1", "HEAD~0", "main@{0}"])
def test_a_commit_may_be_named_as_git_names_it(repository: Repository, name: str):
    repository.git("tag", "v1")
    with old_folder(policies(repository), name) as old:
        assert old.commit == repository.git("rev-parse", "HEAD")


def test_a_detached_worktree_compares_with_the_same_path(repository: Repository, tmp_path: Path):
    first = repository.git("rev-parse", "HEAD")
    (policies(repository) / "trust.yaml").write_text("tenant: new\n")
    repository.commit()
    worktree = tmp_path / "beside"
    repository.git("worktree", "add", "--quiet", "--detach", str(worktree), "HEAD")
    with old_folder(worktree / "my policies", first) as old:
        assert files(old.folder) == OLD


def test_three_dots_compare_with_where_the_branch_parted(repository: Repository):
    parted = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit("mine")
    repository.git("checkout", "--quiet", "main")
    (policies(repository) / "trust.yaml").write_text("tenant: later\n")
    repository.commit("theirs")
    repository.git("checkout", "--quiet", "change")
    with old_folder(policies(repository), "main...") as old:
        assert old.commit == parted
    with old_folder(policies(repository), "main") as old:
        assert files(old.folder)["trust.yaml"] == "tenant: later\n"


def test_branches_with_nothing_in_common_have_no_place_where_they_parted(repository: Repository):
    repository.git("checkout", "--quiet", "--orphan", "alone")
    repository.commit("another beginning")
    with pytest.raises(ConfigurationError, match="no commit in common"), old_folder(policies(repository), "main..."):
        pass


def test_a_folder_that_was_not_there_is_none(repository: Repository):
    later = repository.folder / "later"
    later.mkdir()
    with old_folder(later, "main") as old:
        assert old.folder is None


def test_before_the_first_commit_head_has_nothing(tmp_path: Path):
    made = Repository(tmp_path)
    with old_folder(made.folder, "HEAD") as old:
        assert old.folder is None
    with pytest.raises(ConfigurationError, match="knows no commit"), old_folder(made.folder, "main"):
        pass


def test_the_folder_may_be_the_top_of_the_repository(tmp_path: Path):
    made = Repository(tmp_path)
    (tmp_path / "trust.yaml").write_text("x\n")
    made.commit()
    with old_folder(tmp_path, "main") as old:
        assert files(old.folder) == {"trust.yaml": "x\n"}
    assert place_in_repository(tmp_path) == ""


def test_a_file_where_the_folder_is_cannot_be_compared_with(repository: Repository):
    (repository.folder / "there").write_text("a file\n")
    repository.commit()
    (repository.folder / "there").unlink()
    (repository.folder / "there").mkdir()
    with pytest.raises(ConfigurationError, match="has a file where"), old_folder(repository.folder / "there", "main"):
        pass


@pytest.mark.parametrize("name", ["", "-p", "--output=x", "main:trust.yaml", "a\nb", "...", "nowhere", "HEAD^{tree}"])
def test_what_names_no_commit_is_refused(repository: Repository, name: str):
    with pytest.raises(ConfigurationError, match="commit"), old_folder(policies(repository), name):
        pass
    assert not is_commit(policies(repository), name)


def test_a_branch_and_a_tag_of_one_name_have_to_be_told_apart(repository: Repository):
    repository.git("tag", "twice")
    repository.commit("later")
    repository.git("branch", "twice")
    with (
        pytest.raises(ConfigurationError, match=r"refs/heads/… or refs/tags/…"),
        old_folder(policies(repository), "twice"),
    ):
        pass
    with old_folder(policies(repository), "refs/heads/twice") as old:
        assert old.commit == repository.git("rev-parse", "HEAD")


def test_outside_of_a_repository_that_is_said(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="no git repository"), old_folder(tmp_path, "main"):
        pass
    assert place_in_repository(tmp_path) is None


def test_a_link_in_the_old_tree_is_refused(repository: Repository):
    (policies(repository) / "tests").symlink_to("/etc")
    repository.commit()
    with pytest.raises(ConfigurationError, match="symbolic link"), old_folder(policies(repository), "main"):
        pass


def test_a_submodule_in_the_old_tree_is_refused(repository: Repository, tmp_path: Path):
    other = Repository(tmp_path / "other")
    other.commit()
    repository.git("submodule", "--quiet", "add", str(other.folder), "my policies/contracts/other")
    repository.commit()
    with pytest.raises(ConfigurationError, match="submodule"), old_folder(policies(repository), "main"):
        pass


def test_attributes_replacements_and_a_hooks_variables_change_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (policies(repository) / ".gitattributes").write_text("trust.yaml export-ignore text eol=crlf\n")
    honest = repository.commit()
    (policies(repository) / "trust.yaml").write_text("tenant: replaced\n")
    forged = repository.commit()
    repository.git("replace", honest, forged)
    elsewhere = Repository(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(elsewhere.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nothing"))
    with old_folder(policies(repository), honest) as old:
        assert files(old.folder) == OLD


def test_a_file_too_large_to_be_read_stays_too_large(repository: Repository):
    (policies(repository) / "big.yaml").write_bytes(b"x" * (adapter.MAX_BYTES + 5))
    repository.commit()
    with old_folder(policies(repository), "main") as old:
        assert old.folder is not None
        assert (old.folder / "big.yaml").stat().st_size > adapter.MAX_BYTES


def test_a_tree_with_too_many_files_is_refused(repository: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(adapter, "MAX_FILES", 1)
    with pytest.raises(ConfigurationError, match="too much"), old_folder(policies(repository), "main"):
        pass


def test_a_shallow_clone_says_what_is_missing(repository: Repository, tmp_path: Path):
    first = repository.git("rev-parse", "HEAD")
    repository.commit()
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", f"file://{repository.folder}", str(clone)],
        check=True,
        capture_output=True,
    )
    with pytest.raises(ConfigurationError, match="fetch-depth"), old_folder(clone / "my policies", first):
        pass
