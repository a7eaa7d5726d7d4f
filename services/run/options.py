"""What a run is asked for."""

from typing import Literal

import msgspec


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of one run, kept with it so that `resume` goes on in the same way."""

    board: str
    """The path as given, relative to `folder`."""
    only: tuple[str, ...] = ()
    base: str | None = None
    allow_red_base: bool = False
    again: bool = False
    cache: Literal["on", "read", "off"] = "on"
    unsafe_local: bool = False
    dry_run: bool = False
    flags: dict[str, object] = {}
    """Settings given on the command line, by dotted name: {"run.lane": "live"}."""
