"""What the gate notices about a change, one line each, for judge and screen. Flags refuse nothing by themselves."""

from taskyard.services.repo import Repository


async def flags_of(repository: Repository, base_tree: str, tree: str, max_deleted: float) -> tuple[str, ...]:
    """Deleted files, and files that lost more than the share `max_deleted` of their lines."""
    flags = []
    for change in await repository.changed(base_tree, tree):
        if change.kind == "D":
            flags.append(f"{change.path} was deleted")
            continue
        if change.kind != "M":
            continue
        old = await repository.read(base_tree, change.path) or b""
        new = await repository.read(tree, change.path) or b""
        before = old.splitlines()
        if before and (gone := _gone(before, new.splitlines()) / len(before)) > max_deleted:
            flags.append(f"{gone:.0%} of the lines of {change.path} were deleted")
    return tuple(flags)


def _gone(before: list[bytes], after: list[bytes]) -> int:
    """How many more lines went than came."""
    return max(len(before) - len(after), 0)
