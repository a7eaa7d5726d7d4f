"""Named points at which a fault test may kill this process.

    fault.point("journal.commit.before")

In production a point costs one look-up in an empty dictionary. In a fault test the environment says where to die:
`TASKYARD_FAULT="landing.tip.after:3"` kills the process with SIGKILL when the point is passed for the third time.
Points are listed from the source by the fault tests, so a name must be a plain string literal, used once.
"""

import os
import signal

_ENVIRONMENT = "TASKYARD_FAULT"


def _armed(text: str) -> dict[str, int]:
    """{point: passes until death} from `name:count`, count 1 when it is left out."""
    if not text:
        return {}
    name, _, count = text.partition(":")
    return {name: int(count or "1")}


_left = _armed(os.environ.get(_ENVIRONMENT, ""))


def point(name: str) -> None:
    """Die here by SIGKILL when a fault test armed this point; else do nothing."""
    if not _left or name not in _left:
        return
    _left[name] -= 1
    if _left[name] <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
