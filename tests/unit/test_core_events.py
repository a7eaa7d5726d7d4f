"""The events, held against the contract's own table and examples."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from taskyard.services import events
from taskyard.services.events import (
    AnyEvent,
    Event,
    EventLog,
    RunFinished,
    TaskStateChanged,
    Totals,
    Warned,
    decode,
    encode,
)
from taskyard.services.records import CheckPlace, Lane, Role, Source, TaskState

CONTRACT = (Path(__file__).parent / "contract_events.md").read_text("utf-8")
BY_NAME: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyEvent)}
OPTIONAL_AT_START = {"batch_submitted": 2}
"""How many of the fields that the table gives for a pair of events the first of them has."""


def _without_brackets(text: str) -> str:
    """The cell without what stands in (nested) round brackets: explanations and values."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


def _rows() -> dict[str, tuple[list[str], str]]:
    """{event: (its fields in order, its whole cell)} from the contract's table."""
    found = {}
    for line in CONTRACT.splitlines():
        if line.startswith("| `"):
            names, cell = (part.strip() for part in line.strip("| ").split(" | ", 1))
            fields = re.findall(r"`(\w+)`", _without_brackets(cell))
            for name in re.findall(r"`(\w+)`", names):
                found[name] = (fields[: OPTIONAL_AT_START.get(name, len(fields))], cell)
    return found


ROWS = _rows()
EXAMPLES = [line for line in CONTRACT.splitlines() if line.startswith('{"event"')]
VALUES: dict[Any, tuple[str, str]] = {
    TaskState: ("task_state", "state"),
    Role: ("answer", "role"),
    Lane: ("answer", "lane"),
    Source: ("answer", "source"),
    CheckPlace: ("check_finished", "where"),
    events.LessonAction: ("lesson", "action"),
    events.LandingStep: ("landing", "step"),
    events.Reason: ("run_finished", "reason"),
}


def test_there_are_the_events_of_the_contract_and_no_others() -> None:
    """Every name in the table has its event, and the other way round."""
    assert len(ROWS) == 12
    assert set(BY_NAME) == set(ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_event_has_its_fields_in_the_contracts_order(name: str) -> None:
    """`event`, `at`, `run`, then the fields of the table, as the line is written."""
    fields, _ = ROWS[name]
    kind = BY_NAME[name]
    assert kind.__struct_config__.tag_field == "event"
    assert list(kind.__struct_fields__) == ["at", "run", *fields]


@pytest.mark.parametrize(("name", "field"), VALUES.values())
def test_a_field_takes_the_values_of_the_contract_and_no_others(name: str, field: str) -> None:
    """States, roles, lanes, steps and reasons are those of the table."""
    allowed = next(kind for kind, place in VALUES.items() if place == (name, field))
    listed = re.search(rf"`{field}` \(`([^`]+)`", ROWS[name][1])
    assert listed is not None
    assert set(get_args(allowed)) == set(listed[1].split())


def test_the_parts_of_run_finished_have_the_contracts_fields() -> None:
    """`saved_usd` and `requests` are objects with the fields that the table lists."""
    cell = ROWS["run_finished"][1]
    for field, kind in (("saved_usd", events.SavedUsd), ("requests", events.RequestCounts)):
        listed = re.search(rf"`{field}` \(\{{(.*?)\}}\)", cell)
        assert listed is not None
        assert list(kind.__struct_fields__) == re.findall(r"`(\w+)`", listed[1])
    assert set(Totals.__struct_fields__) <= set(RunFinished.__struct_fields__)


def test_every_example_of_the_contract_is_read_and_written_back_the_same() -> None:
    """The lines of the contract survive a round trip: same fields, same order, same values."""
    assert len(EXAMPLES) == 5
    for line in EXAMPLES:
        written = json.loads(encode(decode(line.encode())))
        assert list(written.items()) == list(json.loads(line).items())


def test_readers_ignore_fields_they_do_not_know() -> None:
    """Unknown fields may be added later."""
    line = b'{"event":"warning","at":"x","run":"r","code":"c","message":"m","added_later":[1]}'
    assert decode(line) == Warned(at="x", run="r", code="c", message="m")


def test_a_line_with_an_unknown_value_is_refused() -> None:
    """A state that is none is an error, not a silent string."""
    with pytest.raises(msgspec.ValidationError, match="state"):
        decode(b'{"event":"task_state","at":"","run":"","task":"T1","state":"dreaming","attempt":1}')


def test_an_event_is_one_line() -> None:
    """Whatever a message holds, one object is one line of valid UTF-8."""
    line = encode(Warned(code="c", message='two\nlines \u2028 "quoted" ✔'))
    assert b"\n" not in line
    assert json.loads(line)["message"] == 'two\nlines \u2028 "quoted" ✔'


def test_what_is_unpriced_is_null_and_never_nothing() -> None:
    """An unknown cost is written as null."""
    line = EXAMPLES[2].replace('"cost_usd":0.0061', '"cost_usd":null')
    assert json.loads(encode(decode(line.encode())))["cost_usd"] is None


class StillClock:
    def now(self) -> float:
        return 1_796_140_800.0

    def monotonic(self) -> float:
        return 0.0


def test_the_log_stamps_every_event_and_hands_it_to_everyone_in_order() -> None:
    """`at` and `run` are the log's; all listeners see the same events in the same order."""
    seen: list[tuple[str, Event]] = []
    log = EventLog("r7k2", StillClock(), [lambda e: seen.append(("a", e)), lambda e: seen.append(("b", e))])
    log.emit(Warned(code="one", message=""))
    log.emit(TaskStateChanged(at="forged", run="forged", task="T1", state="queued", attempt=1))
    assert [who for who, _ in seen] == ["a", "b", "a", "b"]
    assert {(event.at, event.run) for _, event in seen} == {("2026-12-01T16:00:00.000Z", "r7k2")}


def test_an_event_can_not_be_changed() -> None:
    """D13: what one listener holds no other can alter."""
    with pytest.raises(AttributeError):
        Warned(code="c", message="m").code = "other"  # type: ignore[misc]
