"""Which task runs when.

    dispatcher = Dispatcher(tasks, run_task, done=done, activity=activity, max_in_flight=200, emit=emit, ended=told)
    ends = await dispatcher.run()

Board order and priority decide where nothing else does; a task begins when all that it depends on is on the tip.
"""

from taskyard.services.dispatch.dispatcher import Dispatcher, stops_the_run

__all__ = ["Dispatcher", "stops_the_run"]
