"""Prompts: the template engine, the templates of the three roles, and the repository's outline.

    builder = PromptBuilder(PromptEngine(top / ".taskyard/prompts", clock))
    view = repository_view(files, read)
    prompt = builder.implementer(TaskInputs(task=task, checks=checks, repository=view), plan)

Prompts are pure functions of their inputs: no clock, no random, no path of this machine.
"""

from taskyard.services.prompts.builder import PromptBuilder
from taskyard.services.prompts.engine import PromptEngine, TemplateStatistics
from taskyard.services.prompts.inputs import Change, EarlierAttempt, Plan, Prompt, RepositoryView, TaskInputs
from taskyard.services.prompts.outline import repository_view

__all__ = [
    "Change",
    "EarlierAttempt",
    "Plan",
    "Prompt",
    "PromptBuilder",
    "PromptEngine",
    "RepositoryView",
    "TaskInputs",
    "TemplateStatistics",
    "repository_view",
]
