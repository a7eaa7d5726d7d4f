"""Locks between processes: who runs on this repository.

with hold(state / "run.lock", "run r7k2"):      # raises EnvironmentFault naming the holder
    ...
holder(state / "run.lock")                      # "run r7k2, process 4711", or None
"""

from taskyard.services.locks.flock import hold, holder

__all__ = ["hold", "holder"]
