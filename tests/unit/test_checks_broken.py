"""A command that did not really run is told from one that failed."""

import pytest

from taskyard.services.checks.broken import why_broken


@pytest.mark.parametrize(
    ("code", "printed", "named"),
    [
        (127, "/bin/sh: 1: pytset: not found\n", "`pytset` was not found"),
        (127, "sh: line 1: pytset: command not found\n", "`pytset` was not found"),
        (127, "zsh:1: command not found: pytset\n", "`pytset` was not found"),
        (127, "env: \u2018python9\u2019: No such file or directory\n", "`python9` was not found"),
        (127, "/bin/sh: 1: ./check.sh: not found\n", "`./check.sh` was not found"),
        (127, "sh: line 1: ./check.sh: No such file or directory\n", "`./check.sh` was not found"),
        (126, "/bin/sh: 1: ./check.sh: Permission denied\n", "`./check.sh` can't be executed"),
        (1, "/usr/bin/python3: No module named pytest\n", "the module pytest"),
        (2, "python: can't open file '/x/run.py': [Errno 2] No such file or directory\n", "the file '/x/run.py'"),
        (5, "\nno tests ran in 0.01s\n", "no tests were found"),
        (5, "collected 0 items\n\n=== no tests ran in 0.01s ===\n", "no tests were found"),
        (0, "\n----\nRan 0 tests in 0.000s\n\nOK\n", "no tests were found"),
        (5, "Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", "no tests were found"),
        (1, "No tests found, exiting with code 1\n", "no tests were found"),
        (1, "\nNo test files found, exiting with code 1\n", "no tests were found"),
        (0, "?   \texample.com/a\t[no test files]\n?   \texample.com/b\t[no test files]\n", "no tests were found"),
        (0, "ok  \texample.com/a\t0.01s [no tests to run]\n", "no tests were found"),
        (0, "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n", "no tests were found"),
        (0, "# tests 0\n# pass 0\n", "no tests were found"),
        (0, "\n  0 passing (1ms)\n", "no tests were found"),
    ],
)
def test_a_command_that_did_not_run_says_what_to_do(code: int, printed: str, named: str):
    """Exit 126, 127 and "no tests ran" are configuration errors that name the command."""
    sentence = why_broken(code, printed, "the-command --flag")
    assert named in sentence
    assert "the-command --flag" in sentence


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (0, ""),
        (0, "3 passed in 0.01s\n"),
        (1, "1 failed, 2 passed in 0.1s\n"),
        (127, "the program ended itself with 127\n"),
        (126, "the program ended itself with 126\n"),
        (1, "FAIL: config key 'x' not found\n"),
        (1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pytest'\n"),
        (0, "Ran 0 tests in 0.000s\n\nOK\nRan 12 tests in 0.1s\n\nOK\n"),
        (0, "?   \texample.com/a\t[no test files]\nok  \texample.com/b\t0.01s\n"),
        (0, "\nrunning 0 tests\n\nrunning 4 tests\n"),
        (1, "test_empty: no tests ran, as it should be\nRan 3 tests in 0.1s\nFAILED (failures=1)\n"),
    ],
)
def test_a_command_that_ran_is_not_broken(code: int, printed: str):
    """A red check is red, and a suite with one empty part is a suite."""
    assert why_broken(code, printed, "the-command") == ""
