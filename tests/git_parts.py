"""Real git repositories for tests, with an identity of their own and nothing of the machine's settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *words: str, at: Path | None = None) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        identity = ["-c", "user.name=tester", "-c", "user.email=tester@tests.example", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, "-c", "protocol.file.allow=always", *words],
            cwd=at or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, words: str = "a step") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", words)
        return self.git("rev-parse", "HEAD")
