"""A loopback server that speaks the Messages API: for the demo, and for tests that must count what was paid.

    with PracticeServer(latency_s=0.05, faults=[Fault("529", nth=2)]) as server:
        os.environ["ANTHROPIC_BASE_URL"] = server.url
        ...
        server.ledger.paid()        # {payment key: how often it was paid}

As a process of its own: `python -m taskyard.services.practice --latency 0.05`.
"""

from taskyard.services.practice.app import Limits
from taskyard.services.practice.engine import Switches
from taskyard.services.practice.faults import Fault, Faults, parse_fault
from taskyard.services.practice.server import PracticeServer
from taskyard.services.practice.wire import Answer, Reply, request_key

__all__ = ["Answer", "Fault", "Faults", "Limits", "PracticeServer", "Reply", "Switches", "parse_fault", "request_key"]
