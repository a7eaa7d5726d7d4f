"""Green results, kept and found again by what they are a function of: tree, command, network and environment.

    results = Results(db)                                  # opened with MIGRATIONS
    found = await results.find(tree, check, sandbox.key)
    if found is None:
        await results.keep(result, check, sandbox.key)

A red result is never kept: it may have been an accident of its moment, and only the journal may repeat it.
"""

import msgspec
import zstandard

from taskyard.services import fault
from taskyard.services.database import Connection, Database, Migration
from taskyard.services.records import Check, CheckResult

KEPT = 20_000
"""Rows; the oldest go first."""

MIGRATIONS = (
    Migration(
        "checks",
        1,
        """
        create table check_result (
            id integer primary key,
            tree text not null,
            command text not null,
            network integer not null,
            environment text not null,
            result blob not null,
            unique (tree, command, network, environment)
        )
        """,
    ),
)
_FIND = "select result from check_result where tree = ? and command = ? and network = ? and environment = ?"
_KEEP = """
insert into check_result (tree, command, network, environment, result) values (?, ?, ?, ?, ?)
on conflict (tree, command, network, environment) do nothing
"""
_PRUNE = "delete from check_result where id <= (select max(id) from check_result) - ?"


class Results:
    """The green results of this repository."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, tree: str, check: Check, environment: str) -> CheckResult | None:
        """The green result of this command on this tree, under the check's present name; None when there is none.

        environment: `Sandbox.key`, and whatever else the command's outcome hangs on (the key of the set-up).
        """
        wanted = (tree, check.command, check.network, environment)
        row = await self._db.read(lambda connection: connection.execute(_FIND, wanted).fetchone())
        if row is None:
            return None
        found = msgspec.json.decode(zstandard.decompress(row[0]), type=CheckResult)
        return msgspec.structs.replace(found, check=check.name)

    async def keep(self, result: CheckResult, check: Check, environment: str) -> None:
        """Keep a green result; any other is left alone. Durable when it returns."""
        if not result.green:
            return
        packed = zstandard.compress(msgspec.json.encode(result))
        row = (result.tree, result.command, check.network, environment, packed)

        def write(connection: Connection) -> None:
            connection.execute(_KEEP, row)
            connection.execute(_PRUNE, (KEPT,))

        fault.point("checks.result.keep.before")
        await self._db.write(write)
        fault.point("checks.result.keep.after")
