"""The pages that people read, against the program they describe."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from taskyard.services.config import template
from taskyard.services.events import AnyEvent
from taskyard.tui.cli import cli

SOURCE = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(f"docs/{page.name}" for page in (SOURCE / "docs").glob("*.md")),
)
README = (SOURCE / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short_and_shows_the_two_commands_at_once() -> None:
    """At most 100 lines; `make demo` and `make test` on the first screen."""
    lines = README.splitlines()
    assert len(lines) <= 100
    assert {"make demo", "make test"} <= {line.split("#")[0].strip() for line in lines[:20]}


def test_the_readme_names_every_command() -> None:
    """A command that nobody can find is not there."""
    assert [name for name in cli.commands if not re.search(rf"`(taskyard )?{name}\b", README)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    """Relative links only; addresses are not looked up."""
    text = (SOURCE / page).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    assert [target for target in targets if not (SOURCE / page).parent.joinpath(target).exists()] == []


def test_the_page_of_settings_shows_what_init_writes() -> None:
    """Every setting, with its default, as the program has them now."""
    page = (SOURCE / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page.split("```toml\n")[1].split("```")[0].rstrip("\n") == template().rstrip("\n")


@pytest.mark.parametrize("event", get_args(AnyEvent), ids=lambda event: event.__name__)
def test_the_page_of_json_names_every_event_and_field(event: type[msgspec.Struct]) -> None:
    """Scripts are written from this page."""
    page = (SOURCE / "docs" / "json.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{event.__struct_config__.tag}` |"))
    assert [name for name in event.__struct_fields__ if name not in ("at", "run") and f"`{name}`" not in row] == []
