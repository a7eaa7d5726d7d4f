"""Every setting: its name, type, default, what it allows, and what it means. The one place that lists them.

A field's `Annotated` holds the kind that reads it and the line that explains it in the template.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, get_type_hints

from msgspec import Struct

from taskyard.services.config.values import Duration, Kind, OneOf, Or, Real, Size, Switch, Text, Texts, Whole, or_none
from taskyard.services.records import Check

LaneChoice = Literal["auto", "live", "batch"]
PushChoice = Literal["branch", "target", "none"]
SandboxMode = Literal["auto", "off"]

_DOLLARS = Real(above=0.0)
_SECONDS = Duration(above=0.0)
_SECONDS_OR_ZERO = Duration()
_LOCK_URL = Text(pattern=r"flock://|rediss?://[^/\s]+(/\d+)?", form='"flock://" or "redis://HOST:PORT/DB"')


class RunSettings(Struct, frozen=True):
    """`[run]`: one execution of a board."""

    board: Annotated[str, Text(empty=True), "board of a `taskyard run` that names none"] = ""
    concurrency: Annotated[int, Whole(), "local steps (checks, edits) at once; waiting for a model takes no place"] = 10
    live_requests: Annotated[int, Whole(), "live model calls at once"] = 20
    max_in_flight: Annotated[int, Whole(), "tasks that may be begun and not yet ended"] = 200
    attempts: Annotated[int, Whole(), "tries per task, the first one included; a restart does not reset them"] = 3
    task_timeout: Annotated[float, _SECONDS, "how long one task may take"] = 7200.0
    lane: Annotated[LaneChoice, OneOf.of(LaneChoice), '"live" is at once, "batch" half price, "auto" chooses'] = "auto"
    budget_usd: Annotated[float | None, or_none(_DOLLARS), "the run never spends more than this"] = None
    target: Annotated[str, Text(), "branch of the remote that the work is for"] = "main"
    remote: Annotated[str, Text(), "name of the git remote"] = "origin"
    push: Annotated[
        PushChoice, OneOf.of(PushChoice), '"branch" pushes taskyard/<run>, "target" the target itself, "none" nothing'
    ] = "branch"


class ModelsSettings(Struct, frozen=True):
    """`[models]`: who answers for each role."""

    planner: Annotated[str, Text(), "writes the plan"] = "claude-sonnet-5-5"
    implementer: Annotated[str, Text(), "edits the code"] = "claude-opus-5-5"
    judge: Annotated[str, Text(), "decides about the result"] = "claude-sonnet-5-5"
    prices: Annotated[str, Text(empty=True), "TOML file with prices that add to or replace the built-in ones"] = ""


class CheckDefaults(Struct, frozen=True):
    """`[check_defaults]`: what a check has that does not say otherwise."""

    timeout_s: Annotated[float, _SECONDS, "a check that takes longer is killed"] = 600.0
    network: Annotated[bool, Switch(), "whether checks reach the network"] = False


class SetupSettings(Struct, frozen=True):
    """`[setup]`: prepares a worktree, once per state of the lock files; checks may only read what it made."""

    command: Annotated[str, Text(empty=True), "for example the installation of dependencies; empty: nothing"] = ""
    network: Annotated[bool, Switch(), "whether the command reaches the network"] = True


class GateSettings(Struct, frozen=True):
    """`[gate]`: what an attempt may not change unseen."""

    protected: Annotated[tuple[str, ...], Texts(), "stay as on the base, unless a task may change tests"] = (
        "tests/**", "test/**", "**/test_*", "**/*_test.*", ".github/**", ".ci/**", "conftest.py", "pyproject.toml",
        "tox.ini", "Makefile",
    )  # fmt: skip
    max_deleted: Annotated[float, Real(at_most=1.0), "share of a file that may go before the judge is told"] = 0.3


class ImplementerSettings(Struct, frozen=True):
    """`[implementer]`: bounds of one attempt."""

    turns: Annotated[int, Whole(), "model turns per attempt"] = 12
    check_runs: Annotated[int, Whole(at_least=0), "checks the model may run by itself per attempt"] = 3
    task_budget_usd: Annotated[float, _DOLLARS, "a task that would cost more needs a person"] = 2.0
    judge_rounds: Annotated[int, Whole(), "times the judge is asked per task"] = 2
    context_tokens: Annotated[int, Whole(), "longest request"] = 120_000


class BatchSettings(Struct, frozen=True):
    """`[batch]`: Message Batches. Mostly a batch leaves because nothing else can go on."""

    max_requests: Annotated[int, Whole(at_most=100_000), "requests per batch"] = 10_000
    max_age_s: Annotated[
        float | Literal["auto"],
        Or("auto", "auto", _SECONDS_OR_ZERO),
        'age of the oldest request at which a batch leaves; "auto": 5 % of the usual wait, 2 to 120 s',
    ] = "auto"
    deadline_s: Annotated[float, _SECONDS_OR_ZERO, "a request that would wait longer before it is sent goes live"] = (
        7200.0
    )
    submit_timeout_s: Annotated[float, _SECONDS, "for one submission; its fate is settled after twice that"] = 600.0


class LandingSettings(Struct, frozen=True):
    """`[landing]`: how accepted commits get onto the tip, and the tip to the remote."""

    batch: Annotated[int, Whole(), "commits verified together"] = 10
    max_age_s: Annotated[float, _SECONDS_OR_ZERO, "longest wait of a ready commit for company"] = 5.0
    push_every_s: Annotated[float | None, or_none(_SECONDS), "pushes during the run, besides the one at its end"] = None
    task_branches: Annotated[bool, Switch(), "push a branch per task as well, in the same push"] = False
    max_waiting: Annotated[int | None, or_none(Whole()), "begin no task while so many wait for a person"] = None


class CacheSettings(Struct, frozen=True):
    """`[cache]`: answers that were paid for."""

    max_entries: Annotated[int | None, or_none(Whole(at_least=0)), "answers kept; 0: no cache"] = 100_000
    max_bytes: Annotated[int | None, or_none(Size()), "space for them"] = 2 * 10**9
    ttl: Annotated[float | None, or_none(_SECONDS), "age at which an answer is forgotten"] = 2_592_000.0


class LessonsSettings(Struct, frozen=True):
    """`[lessons]`: what earlier failures taught."""

    file: Annotated[str, Text(), "where they are kept, worth committing"] = ".taskyard/lessons.jsonl"
    offered: Annotated[int, Whole(at_least=0), "lessons per prompt, at most"] = 5


class HistorySettings(Struct, frozen=True):
    """`[history]`: attempts on record. Each limit may be "none"."""

    max_bytes: Annotated[int | None, or_none(Size()), "space for them"] = 100 * 10**6
    max_age: Annotated[float | None, or_none(_SECONDS), "age at which an attempt is archived"] = 86_400.0
    max_entries: Annotated[int | None, or_none(Whole()), "attempts kept"] = 1000
    archive: Annotated[str | None, or_none(Text()), 'a folder, "default" (beside the database) or "none"'] = "default"


class LocksSettings(Struct, frozen=True):
    """`[locks]`: leases between processes that share a repository."""

    url: Annotated[str, _LOCK_URL, '"flock://" on one machine, "redis://host:6379/0" on several'] = "flock://"
    ttl_s: Annotated[float, _SECONDS, "a holder that is silent for so long loses its lease"] = 30.0


class SandboxSettings(Struct, frozen=True):
    """`[sandbox]`: what commands may see and use."""

    mode: Annotated[SandboxMode, OneOf.of(SandboxMode), '"auto": bubblewrap; "off": none, needs --unsafe-local'] = (
        "auto"
    )
    env: Annotated[tuple[str, ...], Texts(), "names of further variables that checks may see"] = ()
    memory: Annotated[int, Size(), "per check"] = 4 * 10**9
    processes: Annotated[int, Whole(), "per check"] = 512
    file_size: Annotated[int, Size(), "largest file a check may write"] = 10**9
    read: Annotated[tuple[str, ...], Texts(), "further folders that checks may read; those of PATH are found"] = ()


class ScreenSettings(Struct, frozen=True):
    """`[screen]`: the dashboard."""

    refresh_hz: Annotated[float, Real(above=0.0, at_most=30.0), "redraws per second, at most"] = 4.0
    theme: Annotated[str, Text(), "name of a theme"] = "taskyard-dark"
    reduced_motion: Annotated[bool, Switch(), "nothing moves by itself"] = False


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set, checked and in one unit each. Sections are named as in taskyard.toml."""

    run: RunSettings = RunSettings()
    models: ModelsSettings = ModelsSettings()
    checks: tuple[Check, ...] = ()
    """`[checks]`, in the order of the file; each applies to every task and every landing."""
    check_defaults: CheckDefaults = CheckDefaults()
    setup: SetupSettings = SetupSettings()
    gate: GateSettings = GateSettings()
    implementer: ImplementerSettings = ImplementerSettings()
    batch: BatchSettings = BatchSettings()
    landing: LandingSettings = LandingSettings()
    cache: CacheSettings = CacheSettings()
    lessons: LessonsSettings = LessonsSettings()
    history: HistorySettings = HistorySettings()
    locks: LocksSettings = LocksSettings()
    sandbox: SandboxSettings = SandboxSettings()
    screen: ScreenSettings = ScreenSettings()
    keys: dict[str, str] = {}
    """`[keys]`: command → key, to remap."""


class Field(Struct, frozen=True):
    """One setting of a section."""

    kind: Kind
    about: str
    default: object


OPEN_SECTIONS = ("checks", "keys")
"""Sections whose keys a person chooses."""


def fields_of(section: type[Struct]) -> dict[str, Field]:
    """The settings of a section, in order."""
    hints = get_type_hints(section, include_extras=True)
    defaults = section()
    fields = {}
    for name in section.__struct_fields__:
        kind, about = hints[name].__metadata__
        fields[name] = Field(kind, about, getattr(defaults, name))
    return fields


def sections() -> Iterator[tuple[str, type[Struct] | None]]:
    """(name, class) of each section in the order of the file; None for the open ones."""
    defaults = Settings()
    for name in Settings.__struct_fields__:
        yield name, None if name in OPEN_SECTIONS else type(getattr(defaults, name))
