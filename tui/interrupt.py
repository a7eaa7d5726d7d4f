"""Runs a command's coroutine to its end, with an orderly way out on Ctrl-C.

    code = run_to_end(lambda: run_board(folder, options, environ, show), say)

SIGINT, SIGTERM or SIGHUP cancels the coroutine, which may tidy up and return its own exit code; a further one cancels
the tidying up, so that a run waits no longer for answers under way. A run's last event comes in any case.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

INTERRUPTED = 130


class _Stop:
    """What the signals do to one task, in turn."""

    def __init__(self, job: "asyncio.Task[int]", say: Callable[[str], None]) -> None:
        self._job = job
        self._say = say
        self._seen = 0

    def signalled(self) -> None:
        self._seen += 1
        if self._seen == 1:
            self._say("stopping in good order; what was paid for is kept (once more to leave at once)")
            self._job.cancel()
        else:
            self._say("leaving now; answers under way are given up")
            self._job.cancel()


def _signals() -> list[signal.Signals]:
    # Under nohup a hang-up is ignored on purpose; taking it over would end the run with the terminal.
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


def run_to_end(start: Callable[[], Coroutine[Any, Any, int]], say: Callable[[str], None]) -> int:
    """The coroutine's exit code; 130 when it let the cancellation through."""

    async def supervised() -> int:
        loop = asyncio.get_running_loop()
        job = loop.create_task(start())
        stop = _Stop(job, say)
        for number in _signals():
            loop.add_signal_handler(number, stop.signalled)
        try:
            return await job
        except asyncio.CancelledError:
            return INTERRUPTED
        finally:
            for number in _signals():
                loop.remove_signal_handler(number)

    with asyncio.Runner() as runner:
        return runner.run(supervised())
