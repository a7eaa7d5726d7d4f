"""Asking a model on behalf of a task."""

from taskyard.services.errors import ModelError, RequestRefused
from taskyard.services.journal import Steps
from taskyard.services.llm import Answer, Request
from taskyard.services.pipeline.kit import AttemptFailed, Kit


async def ask(kit: Kit, request: Request, steps: Steps) -> Answer:
    """Ask within the task's own budget; what the server refuses for good ends the attempt.

    Raises AttemptFailed, and what ends or pauses the whole run.
    """
    limit = kit.settings.implementer.task_budget_usd
    # What is on record was within the budget when it was asked, so a replay must come through whatever it cost since.
    if limit is not None and not steps.replaying and (cost := await kit.cost(request.task, None)) >= limit:
        raise AttemptFailed(
            "task_budget", f"the task has cost ${cost:.2f} of its ${limit:.2f} ([implementer] task_budget_usd)"
        )
    try:
        return await kit.ask(request, steps)
    except RequestRefused as error:
        raise AttemptFailed("request_refused", str(error)) from error
    except ModelError as error:
        if type(error) is not ModelError:  # a refused key or an unreachable server concerns the whole run
            raise
        raise AttemptFailed("request_refused", str(error)) from error
