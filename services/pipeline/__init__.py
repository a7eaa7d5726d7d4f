"""One task's way: plan, implement, verify, judge, land, and again with what was learned.

    end = await TaskRun(kit, task, key, parents=()).run()
    end.state          # merged, failed or needs_you

Everything that a task waits for goes through its journal, so a task that runs again after a crash repeats nothing.
"""

from taskyard.services.pipeline.decisions import MIGRATIONS, Action, Decisions, when_only_people_are_left
from taskyard.services.pipeline.inputs import text_digest
from taskyard.services.pipeline.kit import Base, Kit
from taskyard.services.pipeline.meeting import Meeting
from taskyard.services.pipeline.requests import load_tools
from taskyard.services.pipeline.task import TaskEnd, TaskRun
from taskyard.services.pipeline.verify import Verifier

__all__ = [
    "MIGRATIONS",
    "Action",
    "Base",
    "Decisions",
    "Kit",
    "Meeting",
    "TaskEnd",
    "TaskRun",
    "Verifier",
    "load_tools",
    "text_digest",
    "when_only_people_are_left",
]
