"""`kill -9` at every named point and at random, `resume` at once each time: the end is that of an undisturbed run.

Which point, which pass of it, and where the next life dies too are drawn from the seed, so a failure comes again.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import taskyard.services.fault

if TYPE_CHECKING:
    from conftest import Life, Stage, Undisturbed

SERVICES = Path(taskyard.services.fault.__file__).parent
CALLS = [
    argument
    for file in sorted(SERVICES.rglob("*.py"))
    if file.name != "fault.py"
    for argument in re.findall(r"\bfault\.point\(([^)]*)\)", file.read_text())
]
POINTS = sorted({argument.strip('"') for argument in CALLS})
KINDS = ("plain", "fresh", "edited", "history")
ELSEWHERE = {"repo.init": "fresh", "repo.config": "fresh", "board.replace": "edited", "history": "history"}
"""Points by the beginning of their names that the plain stage does not pass: its state folder is there already, its
board is ticked in the landed history, and its own history is short."""
SAMPLE = {
    ("database.commit.after", 2), ("llm.post.after", 1), ("landing.tip.after", 0), ("lessons.sync.before", 1),
    ("publish.push.after", 0),
}  # fmt: skip
"""What the quick suite takes, a point of each room that has something to lose."""
SEEDS = range(5)
ROUND_THE_PUSH = [
    point
    for point in POINTS
    if point.startswith(("landing", "publish", "repo.push", "repo.move", "repo.keep", "repo.fetch"))
]
LAST = 6
"""Passes of a point that are near enough to the end of a run to be those of its pushes."""
RANDOM_SEEDS = range(10)
KILLS = 3
"""Lives that are killed at most; without a bound, one that dies on its way in would come back for ever."""


def kind_of(point: str) -> str:
    """The stage on which a run passes the point."""
    return next((kind for start, kind in ELSEWHERE.items() if point.startswith(start)), "plain")


def cases() -> list[Any]:
    """Every point with every seed; all but the sample are slow."""
    return [
        pytest.param(point, seed, marks=() if (point, seed) in SAMPLE else pytest.mark.slow, id=f"{point}-{seed}")
        for point in POINTS
        for seed in SEEDS
    ]


def test_every_point_is_a_plain_literal_used_once() -> None:
    """A fault test names a point and means one place."""
    assert len(CALLS) >= 40
    assert [call for call in CALLS if not re.fullmatch(r'"[a-z]+(\.[a-z]+)+"', call)] == []
    assert [call for call, times in Counter(CALLS).items() if times > 1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_point_is_passed_by_an_undisturbed_run(undisturbed: "Callable[[str], Undisturbed]", kind: str) -> None:
    """A point that nothing passes would be tested by nobody, and look as if it were."""
    passed = undisturbed(kind).passes
    assert [point for point in POINTS if kind_of(point) == kind and not passed[point]] == []


def to_the_end(stage: "Stage", lives: "list[Life]", again: "Callable[[], dict[str, Any]]") -> "list[Life]":
    """Resume until a life ends by itself. again: how the next life is killed, if it is."""
    while lives[-1].killed:
        lives.append(stage.carry_on(**(again() if len(lives) < KILLS else {})))
    return lives


@pytest.mark.parametrize(("point", "seed"), cases())
def test_killed_at_a_named_point_it_ends_as_if_nothing_had_happened(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]", point: str, seed: int
) -> None:
    """Seed 0 dies at the first pass, 1 in the next lives too, others at a later pass, then wherever chance has it."""
    clean, chance = undisturbed(kind_of(point)), Random(f"{point} {seed}")
    passes = clean.passes[point]
    number = 1 if seed < 2 else chance.randint(min(2, passes), passes)

    def again() -> dict[str, Any]:
        if seed == 0:
            return {}
        if seed == 1:
            return {"fault": f"{point}:1"}
        other = chance.choice(list(clean.passes))
        return {"fault": f"{other}:{chance.randint(1, clean.passes[other])}"}

    scene = stage(kind_of(point))
    first = scene.life("run", "board.md", fault=f"{point}:{number}")
    # How often a busy point is passed differs by a few from run to run, the first passes never.
    assert first.killed or number > 1, f"the run never came to {point}"
    scene.assert_same_end(to_the_end(scene, [first], again), clean.pushed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("point", ROUND_THE_PUSH)
def test_killed_round_a_push_to_a_target_that_moved_it_ends_as_if_nothing_had_happened(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]", point: str, seed: int
) -> None:
    """What somebody else pushed stays, and the run's commits are put on top of it once."""
    clean, chance = undisturbed("target"), Random(f"target {point} {seed}")
    passes = clean.passes[point]
    scene = stage("target")
    number = chance.randint(max(1, passes - LAST), passes)
    first = scene.life("run", "board.md", fault=f"{point}:{number}")
    lives = to_the_end(scene, [first], lambda: {"fault": f"{chance.choice(ROUND_THE_PUSH)}:1"} if seed else {})
    scene.assert_same_end(lives, clean.pushed)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed else ()) for seed in RANDOM_SEEDS])
def test_killed_at_random_it_ends_as_if_nothing_had_happened(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]", seed: int
) -> None:
    """SIGKILL of the whole process group after a while, and for odd seeds of the next lives too."""
    clean, chance = undisturbed("plain"), Random(seed)
    scene = stage("plain")

    def again() -> dict[str, Any]:
        return {"kill_after_s": chance.uniform(0.2, 1.0) * clean.seconds} if seed % 2 else {}

    first = scene.life("run", "board.md", kill_after_s=chance.uniform(0.3, 1.0) * clean.seconds)
    scene.assert_same_end(to_the_end(scene, [first], again), clean.pushed)
