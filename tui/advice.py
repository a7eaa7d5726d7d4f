"""What a person can type next, the same on every screen.

look_at("T4")       # "taskyard history show T4"
decide_on("T4")     # "taskyard decide T4 accept|send-back|reject|retry"
"""

import shlex

from taskyard.tui.clean import clean

ACTIONS = {
    "accept": "lands its change as it is",
    "send-back": "another attempt, with what you say in --comment TEXT",
    "reject": "ends it as failed",
    "retry": "another attempt, with other answers to the same questions",
}
"""The decisions about a task, and what each leads to."""


def look_at(task: str) -> str:
    """The command that shows a task's attempts."""
    return f"taskyard history show {word(task)}"


def decide_on(task: str, action: str = "|".join(ACTIONS)) -> str:
    """The command that decides about a task, with the actions to choose from or one of them."""
    return f"taskyard decide {word(task)} {action}"


def word(text: str) -> str:
    """One word of a shell's command line, safe to print."""
    return shlex.quote(clean(text))
