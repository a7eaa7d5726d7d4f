"""The taskyard.toml that `taskyard init` writes: every setting with its default and its meaning, commented out."""

import inspect

from taskyard.services.config.sections import fields_of, sections

_HEAD = """\
# Settings of Taskyard for this repository. Every line that is commented out shows a default: uncomment what you change.
# The same settings work under [tool.taskyard] in pyproject.toml, and in the environment: TASKYARD_RUN_CONCURRENCY=4.
# A flag goes before the environment, that before this file, this file before pyproject.toml.
# Durations: seconds, or "30 s", "5 min", "2 h", "30 d". Sizes: bytes, or "100 MB", "2 GB". Money: US dollars.
"""
_MARGIN = 34
_OPEN = {
    "checks": """\
# [checks]: commands that must pass for every task and every landing; none by default. Two examples:
#   example: test = "python -m pytest -q"
#   example: slow = { command = "make e2e", timeout_s = 1800, network = true }
""",
    "keys": """\
# [keys]: other keys for the commands of the dashboard.
#   form: command = "key"
""",
}


def template() -> str:
    """The commented file. With its single-line settings uncommented it loads to the defaults."""
    return "\n".join([_HEAD, *(_section(name) for name, _ in sections())])


def _section(name: str) -> str:
    section = dict(sections())[name]
    if section is None:
        about, *examples = _OPEN[name].splitlines()
        return "\n".join([about, f"[{name}]", *examples]) + "\n"
    # The class's docstring begins with the section's name in backticks.
    about = (inspect.getdoc(section) or "").replace("`", "")
    lines = [f"# {about}", f"[{name}]"]
    for key, field in fields_of(section).items():
        setting = f"# {key} = {field.kind.toml(field.default)}"
        if len(setting) > 80:
            lines += [f"#   {key}: {field.about}", setting]
        else:
            lines.append(f"{setting:<{_MARGIN}}  # {field.about}")
    return "\n".join(lines) + "\n"
