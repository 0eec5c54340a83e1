"""A group that loads the command that was asked for and no other: most of a command's time is importing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are given as names of a module and of what it holds."""

    def __init__(self, *words: Any, lazily: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*words, **options)
        self._lazily = lazily

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._lazily, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazily:
            return super().get_command(ctx, cmd_name)
        module, name = self._lazily[cmd_name]
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, click.Command)
        return found
