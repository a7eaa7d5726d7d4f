"""What the practice model makes of a task: an order, which planner, implementer and judge all follow."""

import msgspec

from taskyard.services.practice.changes import Target


class Plan(msgspec.Struct, frozen=True):
    """What the planner answers, without the files and checks, which the order knows."""

    summary: str
    steps: tuple[str, ...]
    risks: tuple[str, ...] = ()


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is to be done."""

    plan: Plan
    targets: tuple[Target, ...] = ()
    search: tuple[str, str | None] | None = None
    """A pattern and a glob to search for while the files are looked at."""
    remark: str = "I'll look at the code first."
    """Said before the first tool call."""
    summary: str
    """What `finish` reports."""
    check_all: bool = False
    """Run the project's checks too, not the task's own alone."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(target.path for target in self.targets)
