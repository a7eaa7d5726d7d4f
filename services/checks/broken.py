"""Did a command really run? Exit codes alone do not say: a runner that finds no tests may well say 0.

why_broken(127, "sh: 1: pytset: not found\\n", "pytset -q")   # "`pytset` was not found: …"
"""

import re

_TAIL = 4000
_ONE_LINE = 1000

_NOT_FOUND = re.compile(
    r"(?m)^(?:.*?: )?(?:line )?(?:\d+: )?(?P<name>[^:\s][^:\n]*): (?:command )?not found\s*$"
    r"|command not found: (?P<zsh>\S+)"
    r"|^(?:.*/)?env: [\u2018'\"]?(?P<env>[^\u2019'\":\n]+)[\u2019'\"]?: No such file or directory"
    r"|^(?:.*?: )?(?:line )?(?:\d+: )?(?P<file>[^:\s][^:\n]*): "
    r"(?:No such file or directory|cannot execute: required file not found)\s*$"
)
_NOT_EXECUTABLE = re.compile(
    r"(?m)^.*?(?P<name>[^:\s][^:\n]*): (?:Permission denied|[Cc]annot execute\b.*|Exec format error|[Ii]s a directory)"
)
_NO_MODULE = re.compile(r"\A\S*python\S*: (?:No module named (?P<name>\S+)|can't open file (?P<file>.+?): .*)\s*\Z")

_NO_TESTS = (
    re.compile(r"(?m)^=*[ \t]*no tests (?:ran|collected)\b|\bcollected 0 items\b"),
    re.compile(r"(?m)^(?:Ran 0 tests in|NO TESTS RAN)"),
    re.compile(r"(?m)^No tests? (?:files? )?found\b"),
    re.compile(r"(?m)\[no test files\]|\[no tests to run\]|^testing: warning: no tests to run"),
    re.compile(r"(?m)^running 0 tests$"),
    re.compile(r"(?m)^# tests 0$"),
    re.compile(r"(?m)^[ \t]*0 passing\b"),
)
_TESTS = re.compile(
    r"(?m)^Ran [1-9]\d* tests? in"
    r"|\b[1-9]\d* (?:passed|failed|errors?|passing|failing|xfailed|xpassed)\b"
    r"|\bcollected [1-9]\d* items?\b"
    r"|^(?:ok  |FAIL|---|===)[ \t]+(?!.*no test).*"
    r"|^running [1-9]\d* tests?$"
    r"|^# tests [1-9]"
)


def why_broken(exit_code: int, output: str, command: str) -> str:
    """Why the command could not really run, as a sentence that says what to do; empty when it ran.

    output: what it printed, cleaned. Recognised: a shell's "not found" and "not executable", a missing Python module,
    and runs without a single test of pytest, unittest, jest, vitest, mocha, node, go and cargo.
    """
    if exit_code == 127 and (missing := _NOT_FOUND.search(output[-_TAIL:])):
        name = next(group for group in missing.groups() if group)
        return (
            f"`{name}` was not found: install it, put it on PATH, or correct the command `{command}` "
            "(checks see what PATH leads to; name further folders in [sandbox] read)"
        )
    if exit_code == 126 and (refused := _NOT_EXECUTABLE.search(output[-_TAIL:])):
        return (
            f"`{refused['name']}` can't be executed: make it executable (chmod +x), or correct the command `{command}`"
        )
    if exit_code in {1, 2} and len(output) <= _ONE_LINE and (missing := _NO_MODULE.match(output)):
        what = f"the module {missing['name']}" if missing["name"] else f"the file {missing['file']}"
        return f"Python does not find {what}: install it where PATH leads to, or correct the command `{command}`"
    if any(pattern.search(output) for pattern in _NO_TESTS) and not _TESTS.search(output):
        return f"no tests were found by `{command}`: point it at the tests, or add one"
    return ""


def sandbox_failed(output: str) -> str:
    """The sentence for a sandbox that could not start the command. output: what bwrap said, cleaned."""
    said = output.strip()[-400:] or "it said nothing"
    return f"the sandbox could not start the command ({said}): run `taskyard doctor`, or pass --unsafe-local"
