"""The error tree. Every error that taskyard raises on purpose has `TaskyardError` as its parent.

    TaskyardError
     ├─ UsageError            the person asked for something that can't be done (exit 2, nothing spent)
     │   ├─ ConfigError       a setting is unknown or has a bad value
     │   ├─ BoardError        the board can't be read, or contradicts itself
     │   └─ EnvironmentFault  the machine, repository, key or sandbox lacks something
     ├─ GitError              a git command failed
     │   ├─ LandingStopped    nothing can be put on the tip; the run stops and can be resumed
     │   └─ PushRefused       the remote did not take the push
     ├─ ModelError            a model request ended without an answer
     │   ├─ RequestRefused    the server refused the request for good (4xx)
     │   ├─ KeyRefused        the server refused the API key (401, 403)
     │   └─ ServerUnreachable no server answered for as long as we try
     ├─ BudgetReached         nothing is outstanding and the next request does not fit
     ├─ StorageFull           the disk is full; what was committed stays, the run can be resumed
     ├─ LeaseLost             a lease ended while its holder still worked
     ├─ ToolError             a tool call of the model can't be carried out (told to the model)
     └─ PracticeError         the practice server was used wrongly

Each message says what happened, where, and what to do.
"""


class TaskyardError(Exception):
    """The parent of every error raised on purpose. `str(error)` is fit for a person to read."""


class UsageError(TaskyardError):
    """Bad input or a bad environment: exit code 2, nothing was spent."""


class ConfigError(UsageError):
    """A setting is unknown, of the wrong type, or out of range."""


class BoardError(UsageError):
    """The board can't be read or contradicts itself; the message names the line."""


class EnvironmentFault(UsageError):
    """Something outside the program is missing or wrong: git, the remote, a key, the sandbox."""


class GitError(TaskyardError):
    """A git command failed; the message holds the command's own last words."""


class LandingStopped(GitError):
    """Nothing can be put on the tip: git fails there for a reason that is no task's. The run stops, resumable."""


class PushRefused(GitError):
    """The remote did not take the push.

    moved: True when it refused because the ref is no longer where we saw it (a lost race), False
    when a hook or a rule of the remote refused.
    """

    def __init__(self, message: str, *, moved: bool) -> None:
        super().__init__(message)
        self.moved = moved


class ModelError(TaskyardError):
    """A model request ended without an answer."""


class RequestRefused(ModelError):
    """The server refused the request for good: sending it again would be refused again."""


class KeyRefused(ModelError):
    """The server refused the API key."""


class ServerUnreachable(ModelError):
    """No server answered for as long as we try; the run stops and can be resumed."""


class BudgetReached(TaskyardError):
    """Nothing is outstanding and the next request does not fit into the budget."""


class StorageFull(TaskyardError):
    """The disk is full. What was committed stays; the run stops and can be resumed."""


class LeaseLost(TaskyardError):
    """A lease ended while its holder still worked."""


class ToolError(TaskyardError):
    """A tool call of the model can't be carried out; the message goes back to the model."""


class PracticeError(TaskyardError):
    """The practice server was used wrongly."""
