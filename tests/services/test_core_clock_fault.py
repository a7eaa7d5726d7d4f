"""The clock's stamps, and the points at which a fault test kills."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskyard.services
from taskyard.services.clock import SystemClock, rfc3339, seconds_of

SERVICES = Path(next(iter(taskyard.services.__path__)))
PASSES = "from taskyard.services import fault\nfor n in range(5):\n    print(n, flush=True)\n    fault.point('a.b')\n"


@given(st.integers(0, 4_000_000_000_000))
def test_a_stamp_is_exact_to_the_millisecond(milliseconds: int) -> None:
    """RFC 3339, UTC, milliseconds, and back."""
    stamp = rfc3339(milliseconds / 1000)
    assert stamp.endswith("Z")
    assert len(stamp) == len("2026-12-01T16:00:00.000Z")
    assert round(seconds_of(stamp) * 1000) == milliseconds


def test_stamps_are_in_utc_whatever_the_zone_of_the_machine() -> None:
    """A time with another zone is the same moment; one without a zone is refused."""
    assert rfc3339(1_796_140_800.25) == "2026-12-01T16:00:00.250Z"
    assert seconds_of("2026-12-01T17:00:00.250+01:00") == 1_796_140_800.25
    with pytest.raises(ValueError, match="no time zone"):
        seconds_of("2026-12-01T16:00:00")


def test_the_machines_monotonic_clock_never_goes_back() -> None:
    """Differences of it are durations."""
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


@pytest.mark.parametrize(
    ("armed", "printed"), [("a.b", [0]), ("a.b:3", [0, 1, 2]), ("", [0, 1, 2, 3, 4]), ("a:1", [0, 1, 2, 3, 4])]
)
def test_a_point_kills_at_the_pass_it_is_armed_for(armed: str, printed: list[int]) -> None:
    """SIGKILL at the n-th pass of exactly that point; nothing at all when nothing is armed."""
    process = subprocess.run(
        [sys.executable, "-c", PASSES], capture_output=True, text=True, env=os.environ | {"TASKYARD_FAULT": armed}
    )
    assert [int(line) for line in process.stdout.split()] == printed
    assert process.returncode == (0 if len(printed) == 5 else -signal.SIGKILL)


def test_every_point_has_a_literal_name_of_its_own() -> None:
    """The fault tests list the points from the source: each is a plain string, used once; there are at least twenty."""
    names = []
    for source in SERVICES.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "fault.point":
                assert isinstance(node.args[0], ast.Constant), f"{source}:{node.lineno}"
                names.append(node.args[0].value)
    assert len(names) == len(set(names))
    assert len(names) >= 20
