"""Reads commits: a history with its messages and trailers, in one git process however long it is."""

import re

from taskyard.services.errors import GitError
from taskyard.services.repo.git import Bare
from taskyard.services.repo.records import Commit

_UNIT = "\x1f"
_FIELDS = 6
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


async def read_log(bare: Bare, tip: str, since: str | None) -> tuple[Commit, ...]:
    """The commits reachable from `tip` and not from `since`, parents before children."""
    fields = ("%H", "%T", "%P", "%s", "%B", f"%(trailers:only=true,unfold=true,separator=%x{ord(_UNIT):02x})")
    done = await bare.run(
        "log", "-z", "--reverse", "--topo-order", "--format=tformat:" + "%x00".join(fields), *_range(tip, since)
    )
    parts = done.out.decode("utf-8", "replace").split("\0")[:-1]
    return tuple(_commit(parts[at : at + _FIELDS]) for at in range(0, len(parts), _FIELDS))


async def read_trailers(bare: Bare, tip: str, key: str, since: str | None) -> dict[str, str]:
    """Trailer value → newest commit that carries it."""
    if not _KEY.fullmatch(key):
        raise GitError(f"'{key}' can't be the key of a trailer: letters, digits and '-' only")
    wanted = f"%H %(trailers:key={key},valueonly=true,unfold=true,separator=%x{ord(_UNIT):02x})"
    done = await bare.run("log", "-z", "--topo-order", f"--format=tformat:{wanted}", *_range(tip, since))
    found: dict[str, str] = {}
    for record in done.out.decode("utf-8", "replace").split("\0"):
        commit, _, values = record.partition(" ")
        for value in values.split(_UNIT):
            if value.strip():
                found.setdefault(value.strip(), commit)
    return found


def _range(tip: str, since: str | None) -> tuple[str, ...]:
    return ("--end-of-options", tip if since is None else f"{since}..{tip}", "--")


def _commit(fields: list[str]) -> Commit:
    commit, tree, parents, subject, message, trailers = fields
    pairs = (line.partition(": ") for line in trailers.split(_UNIT) if line)
    return Commit(
        id=commit,
        tree=tree,
        parents=tuple(parents.split()),
        subject=subject,
        message=message,
        trailers={key: value for key, _, value in pairs},
    )
