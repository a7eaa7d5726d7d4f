"""Settings: sources, precedence, and what a bad one is told."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.services.config import Settings, load, template
from taskyard.services.config.sections import fields_of, sections
from taskyard.services.errors import ConfigError
from taskyard.services.records import Check

CONTRACT = """
[run]
board = ""
concurrency = 10
live_requests = 20
max_in_flight = 200
attempts = 3
task_timeout = "2 h"
lane = "auto"
budget_usd = "none"
target = "main"
remote = "origin"
push = "branch"
[models]
planner = "claude-sonnet-5-5"
implementer = "claude-opus-5-5"
judge = "claude-sonnet-5-5"
prices = ""
[checks]
[check_defaults]
timeout_s = 600
network = false
[setup]
command = ""
network = true
[gate]
protected = ["tests/**", "test/**", "**/test_*", "**/*_test.*", ".github/**", ".ci/**", "conftest.py", "pyproject.toml", "tox.ini", "Makefile"]
max_deleted = 0.3
[implementer]
turns = 12
check_runs = 3
task_budget_usd = 2.0
judge_rounds = 2
context_tokens = 120000
[batch]
max_requests = 10000
max_age_s = "auto"
deadline_s = 7200
submit_timeout_s = 600
[landing]
batch = 10
max_age_s = 5.0
push_every_s = "none"
task_branches = false
max_waiting = "none"
[cache]
max_entries = 100000
max_bytes = "2 GB"
ttl = "30 d"
[lessons]
file = ".taskyard/lessons.jsonl"
offered = 5
[history]
max_bytes = "100 MB"
max_age = "24 h"
max_entries = 1000
archive = "default"
[locks]
url = "flock://"
ttl_s = 30
[sandbox]
mode = "auto"
env = []
memory = "4 GB"
processes = 512
file_size = "1 GB"
read = []
[screen]
refresh_hz = 4
theme = "taskyard-dark"
reduced_motion = false
[keys]
"""  # noqa: E501


def write(top: Path, text: str, name: str = "taskyard.toml") -> None:
    (top / name).write_text(text, encoding="utf-8")


def refusal(top: Path, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(top, environ or {}, flags or {})
    return str(caught.value)


def test_a_repository_without_settings_has_the_defaults(tmp_path: Path) -> None:
    """No file, no variable, no flag: the defaults."""
    assert load(tmp_path, {}, {}) == Settings()


def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    """Every key of the contract is known, its default is ours, and we have no key beyond it."""
    write(tmp_path, CONTRACT)
    assert load(tmp_path, {}, {}) == Settings()
    for name, section in sections():
        for key in fields_of(section) if section else ():
            assert f"\n{key} = " in CONTRACT.split(f"[{name}]")[1].split("\n[")[0]


def test_the_template_loads_to_the_defaults_as_it_is_and_uncommented(tmp_path: Path) -> None:
    """`taskyard init` writes a file that changes nothing until a line is uncommented, and then only what it says."""
    write(tmp_path, template())
    assert load(tmp_path, {}, {}) == Settings()
    lines = [line[2:] if line.startswith("# ") and line[2:3].islower() else line for line in template().splitlines()]
    settings = [line for line in lines if line and not line.startswith(("#", "["))]
    assert len(settings) == sum(len(fields_of(section)) for _, section in sections() if section)
    write(tmp_path, "\n".join(lines))
    assert load(tmp_path, {}, {}) == Settings()


def test_units_are_seconds_bytes_and_dollars_after_loading(tmp_path: Path) -> None:
    """Durations and sizes with units, plain numbers, "none" and "auto"."""
    write(
        tmp_path,
        """
        run = { task_timeout = "90 min", budget_usd = 5 }
        cache = { ttl = "1.5 h", max_bytes = "1 MB", max_entries = 0 }
        history = { max_bytes = 4096, max_age = "none", max_entries = "none", archive = "none" }
        batch = { max_age_s = "500 ms", deadline_s = "2 d" }
        landing = { push_every_s = "5 s", max_waiting = 3 }
        sandbox = { memory = "512 MiB", file_size = "2kb" }
        """,
    )
    settings = load(tmp_path, {}, {})
    assert (settings.run.task_timeout, settings.run.budget_usd) == (5400.0, 5.0)
    assert (settings.cache.ttl, settings.cache.max_bytes, settings.cache.max_entries) == (5400.0, 1_000_000, 0)
    history = settings.history
    assert (history.max_bytes, history.max_age, history.max_entries, history.archive) == (4096, None, None, None)
    assert (settings.batch.max_age_s, settings.batch.deadline_s) == (0.5, 172_800.0)
    assert (settings.landing.push_every_s, settings.landing.max_waiting) == (5.0, 3)
    assert (settings.sandbox.memory, settings.sandbox.file_size) == (512 * 2**20, 2000)


def test_flag_goes_before_environment_before_taskyard_toml_before_pyproject(tmp_path: Path) -> None:
    """The order of precedence, setting by setting."""
    keys = ("concurrency", "live_requests", "max_in_flight", "attempts")
    write(tmp_path, "[tool.taskyard.run]\n" + "".join(f"{key} = 91\n" for key in keys), "pyproject.toml")
    write(tmp_path, "[run]\n" + "".join(f"{key} = 92\n" for key in keys[:3]))
    environ = {"TASKYARD_RUN_CONCURRENCY": "93", "TASKYARD_RUN_LIVE_REQUESTS": "93", "HOME": "/nowhere"}
    run = load(tmp_path, environ, {"run.concurrency": 94, "run.lane": None}).run
    assert [getattr(run, key) for key in keys] == [94, 93, 92, 91]
    assert run.lane == "auto"


def test_the_environment_and_flags_may_give_every_type_as_text(tmp_path: Path) -> None:
    """Lists by commas or as TOML, switches as words, numbers, choices and "none"."""
    environ = {
        "TASKYARD_SANDBOX_ENV": "CC, CFLAGS",
        "TASKYARD_SANDBOX_READ": '["/opt/a,b"]',
        "TASKYARD_CHECK_DEFAULTS_NETWORK": "yes",
        "TASKYARD_SCREEN_REDUCED_MOTION": "0",
        "TASKYARD_LANDING_MAX_AGE_S": "0.5",
        "TASKYARD_CACHE_MAX_BYTES": "3 GB",
        "TASKYARD_CHECKS_TEST": "make test",
        "TASKYARD_STATE": "/elsewhere",
        "TASKYARD_FAULT": "a.point:3",
    }
    settings = load(tmp_path, environ, {"run.budget_usd": "2.5", "run.push": "none"})
    assert (settings.sandbox.env, settings.sandbox.read) == (("CC", "CFLAGS"), ("/opt/a,b",))
    assert (settings.check_defaults.network, settings.screen.reduced_motion) == (True, False)
    assert (settings.landing.max_age_s, settings.cache.max_bytes) == (0.5, 3 * 10**9)
    assert settings.checks == (Check("test", "make test", 600.0, True),)
    assert (settings.run.budget_usd, settings.run.push) == (2.5, "none")


def test_checks_keep_their_order_and_fall_back_on_the_check_defaults(tmp_path: Path) -> None:
    """A check is a command or a table; what it does not say comes from [check_defaults], wherever that was set."""
    write(
        tmp_path,
        """
        [checks]
        unit = "make unit"
        a-slow.command = "make slow"
        a-slow.timeout_s = "30 min"
        Web = { command = "make web", network = true }
        """,
    )
    assert load(tmp_path, {"TASKYARD_CHECKS_WEB": "make web2"}, {"check_defaults.timeout_s": "1 min"}).checks == (
        Check("unit", "make unit", 60.0, False),
        Check("a-slow", "make slow", 1800.0, False),
        Check("Web", "make web2", 60.0, False),
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "taskyard.toml",
            "[run]\nconcurency = 3",
            ("taskyard.toml", "run.concurency", "did you mean run.concurrency?"),
        ),
        ("taskyard.toml", "[runs]\nconcurrency = 3", ("taskyard.toml", "[runs]", "did you mean run?")),
        ("taskyard.toml", "concurrency = 3", ("taskyard.toml", "concurrency", "did you mean run.concurrency?")),
        ("taskyard.toml", "run = 3", ("taskyard.toml", "run = 3", "[run] is a section")),
        ("taskyard.toml", "[landing]\nzzzzzz = 3", ("landing.zzzzzz", "known are: landing.batch, landing.max_age_s")),
        ("pyproject.toml", "[tool.taskyard.run]\nlanes = 3", ("pyproject.toml", "run.lanes", "did you mean run.lane?")),
        ("pyproject.toml", "[tool]\ntaskyard = 3", ("pyproject.toml", "table of sections")),
        (
            "taskyard.toml",
            "[checks]\nt = { command = 'x', timeout = 3 }",
            ("checks.t.timeout", "mean checks.t.timeout_s?"),
        ),
        ("taskyard.toml", "[checks]\nt = { network = true }", ("checks.t has no command",)),
    ],
)
def test_an_unknown_setting_is_refused_with_its_file_and_the_nearest_name(
    tmp_path: Path, name: str, text: str, words: tuple[str, ...]
) -> None:
    """H09: a typing error is never ignored."""
    write(tmp_path, text, name)
    message = refusal(tmp_path)
    assert all(word in message for word in words), message


def test_an_unknown_variable_or_flag_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    """H09: also in the environment and on the command line."""
    message = refusal(tmp_path, {"TASKYARD_RUN_CONCURENCY": "3"})
    assert "TASKYARD_RUN_CONCURENCY" in message
    assert "did you mean TASKYARD_RUN_CONCURRENCY?" in message
    assert "did you mean TASKYARD_STATE?" in refusal(tmp_path, {"TASKYARD_STATES": "x"})
    assert "did you mean run.concurrency?" in refusal(tmp_path, {}, {"run.concurency": 3})
    assert "did you mean run.lane?" in refusal(tmp_path, {}, {"lane": "live"})


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("run.concurrency", "0", "a whole number of at least 1"),
        ("run.concurrency", "-3", "a whole number of at least 1"),
        ("run.concurrency", "true", "a whole number of at least 1"),
        ("run.concurrency", "2.0", "a whole number of at least 1"),
        ("run.concurrency", '"4"', "a whole number of at least 1"),
        ("run.concurrency", "99999999999999999999", "a whole number of at least 1"),
        ("run.budget_usd", "0", 'greater than 0, or "none"'),
        ("run.budget_usd", "nan", 'greater than 0, or "none"'),
        ("run.budget_usd", "inf", 'greater than 0, or "none"'),
        ("run.budget_usd", "false", 'greater than 0, or "none"'),
        ("run.task_timeout", '"2 lightyears"', '"2 h"'),
        ("run.task_timeout", '"-2 h"', '"2 h"'),
        ("run.task_timeout", '"none"', '"2 h"'),
        ("run.task_timeout", "0", "greater than 0"),
        ("run.lane", '"fast"', '"auto", "live", "batch"'),
        ("run.lane", '["live"]', '"auto", "live", "batch"'),
        ("run.target", '" "', "a text that is not empty"),
        ("run.board", "3", "a text"),
        ("cache.max_bytes", '"2 gigs"', '"2 GB"'),
        ("cache.max_bytes", "1.5", '"2 GB"'),
        ("gate.max_deleted", "1.1", "at most 1"),
        ("gate.protected", '"tests"', "a list of texts"),
        ("gate.protected", "[3]", "a list of texts"),
        ("batch.max_requests", "100001", "from 1 to 100000"),
        ("locks.url", '"etcd://host"', "redis://HOST:PORT/DB"),
        ("setup.network", '"yes"', "true or false"),
        ("checks.test", "3", "a command that is not empty"),
        ("checks.test", '" "', "a command that is not empty"),
        ("checks.verify-1", '"make"', "a task's own checks are named so"),
        ("checks.'a b'", '"make"', "letters, digits, dots"),
        ("checks.''", '"make"', "1 to 64"),
        ("keys.pause", '"ctrl+b"', "terminals keep this key"),
        ("keys.pause", '"alt+x"', "terminals keep this key"),
    ],
)
def test_a_bad_value_is_refused_with_where_what_and_what_is_allowed(
    tmp_path: Path, setting: str, value: str, allowed: str
) -> None:
    """C14, H15: limits are checked before anything runs, and "no limit" has a word of its own."""
    write(tmp_path, f"{setting} = {value}\n")
    message = refusal(tmp_path)
    assert message.startswith("taskyard.toml: ")
    assert setting.partition(".")[2].strip("'") in message
    assert allowed in message


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "", "ten", "-1"])
def test_a_bad_number_in_the_environment_is_refused(tmp_path: Path, text: str) -> None:
    """The message names the variable and the text."""
    message = refusal(tmp_path, {"TASKYARD_RUN_BUDGET_USD": text})
    assert "TASKYARD_RUN_BUDGET_USD" in message
    assert repr(text) in message


def test_a_bad_value_is_refused_although_a_higher_source_overrides_it(tmp_path: Path) -> None:
    """Each source is checked whole, so a file does not become an error on the day a flag is left out."""
    write(tmp_path, "[run]\nconcurrency = 0\n")
    assert "run.concurrency = 0" in refusal(tmp_path, {}, {"run.concurrency": 3})


@pytest.mark.parametrize("name", ["taskyard.toml", "pyproject.toml"])
def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    """Also a pyproject.toml without settings of ours: whether it holds some can't be known."""
    write(tmp_path, "[run]\nlane = \n", name)
    message = refusal(tmp_path)
    assert f"{name} is not valid TOML" in message
    assert "line 2" in message


@pytest.mark.parametrize("name", ["taskyard.toml", "pyproject.toml"])
def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path, name: str) -> None:
    """Not UTF-8: the line; a folder of that name: the reason."""
    (tmp_path / name).write_bytes(b"[tool]\nx = 'caf\xe9'\n")
    assert f"{name} line 2 is not UTF-8" in refusal(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert f"can't read {name}" in refusal(tmp_path)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    """A file saved by a Windows editor is as good as any."""
    (tmp_path / "taskyard.toml").write_bytes(b"\xef\xbb\xbf[run]\r\nconcurrency = 3\r\n")
    assert load(tmp_path, {}, {}).run.concurrency == 3


def test_a_pyproject_of_another_tool_is_no_source(tmp_path: Path) -> None:
    """Other tools' tables are not ours to judge."""
    write(tmp_path, "[tool.ruff]\nrun = 3\n[project]\nname = 'x'\n", "pyproject.toml")
    assert load(tmp_path, {}, {}) == Settings()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(), st.sampled_from([name for name, _ in sections()]), st.text())
def test_any_flag_is_either_loaded_or_refused_in_words(key: str, section: str, value: str) -> None:
    """No input makes another error than ConfigError."""
    known = [field for name, kind in sections() if name == section and kind for field in fields_of(kind)]
    for name in (key, *known):
        try:
            assert isinstance(load(Path("no such folder"), {}, {f"{section}.{name}": value}), Settings)
        except ConfigError as error:
            assert section in str(error)
