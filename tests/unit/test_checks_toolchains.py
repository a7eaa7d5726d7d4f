"""What PATH leads to is found, and nothing above it."""

from pathlib import Path

import pytest

from taskyard.services.checks import environment
from taskyard.services.checks.identity import identity
from taskyard.services.checks.toolchains import Toolchains, discover


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "home" / "me"
    folder.mkdir(parents=True)
    return folder


def tool(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def find(home: Path, *entries: Path | str, **options: object) -> Toolchains:
    environ = options.pop("environ", {})
    return discover(map(str, entries), homes=(home,), environ=environ, **options)  # type: ignore[arg-type]


def shown(found: Toolchains) -> set[Path]:
    return set(map(Path, found.folders))


def test_an_installation_is_shown_whole(home: Path, tmp_path: Path):
    """An entry `…/bin` shows the folder above it: a program needs its library."""
    tool(tmp_path / "node-22" / "bin" / "node")
    assert shown(find(home, tmp_path / "node-22" / "bin")) == {tmp_path / "node-22"}


def test_of_a_collection_below_the_home_folder_only_programs_and_libraries_are_shown(home: Path):
    """`~/.local` also holds key rings, state and everybody's data."""
    tool(home / ".local" / "bin" / "black")
    for name in ("lib", "share/keyrings", "state"):
        (home / ".local" / name).mkdir(parents=True)
    assert shown(find(home, home / ".local" / "bin")) == {home / ".local" / "bin", home / ".local" / "lib"}


def test_a_linked_tool_leads_to_its_installation_and_its_interpreter(home: Path, tmp_path: Path):
    """`~/.local/bin/black` → a virtual environment elsewhere → the Python that it was made from."""
    base = tool(tmp_path / "python-3" / "bin" / "python3")
    own = home / ".local" / "share" / "pipx" / "venvs" / "black"
    tool(own / "bin" / "black", f"#!{own}/bin/python\n")
    (own / "bin" / "python").symlink_to(base)
    (own / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "black").symlink_to(own / "bin" / "black")
    assert shown(find(home, home / ".local" / "bin")) == {home / ".local" / "bin", own, tmp_path / "python-3"}


def test_a_script_leads_to_the_interpreter_in_its_first_line(home: Path, tmp_path: Path):
    """Also in pip's form for long paths, where the interpreter stands in the second line."""
    tool(tmp_path / "one" / "bin" / "ruby")
    tool(tmp_path / "two" / "bin" / "python")
    tool(home / "bin" / "a", f"#!{tmp_path}/one/bin/ruby -w\n")
    tool(home / "bin" / "b", f"#!/bin/sh\n'''exec' \"{tmp_path}/two/bin/python\" \"$0\" \"$@\"\n' '''\n")
    assert shown(find(home, home / "bin")) == {home / "bin", tmp_path / "one", tmp_path / "two"}


@pytest.mark.parametrize("entry", ["", "..", "../.."])
def test_the_home_folder_and_what_lies_above_it_are_never_shown(home: Path, entry: str):
    """Not even when PATH names them."""
    (home / ".ssh").mkdir()
    assert shown(find(home, (home / entry).resolve())) == set()


def test_of_a_repository_only_the_entry_itself_is_shown(home: Path):
    """`repo/bin` on PATH must not show the checkout with its `.git` and `.env`."""
    repo = home / "work" / "repo"
    tool(repo / "bin" / "run")
    (repo / ".git").mkdir()
    (repo / "lib").mkdir()
    assert shown(find(home, repo / "bin", repo)) == {repo / "bin"}


def test_a_virtual_environment_inside_a_repository_is_shown_without_the_repository(home: Path):
    """An ignored `.venv` is a toolchain, the checkout around it is not."""
    repo = home / "work" / "repo"
    tool(repo / ".venv" / "bin" / "pytest")
    (repo / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (repo / ".git").mkdir()
    assert shown(find(home, repo / ".venv" / "bin")) == {repo / ".venv"}


def test_packages_of_node_are_shown_with_their_neighbours(home: Path):
    """What lies in `node_modules/.bin` needs the packages next to it."""
    repo = home / "repo"
    tool(repo / "node_modules" / "jest" / "bin" / "jest.js")
    (repo / "node_modules" / ".bin").mkdir()
    (repo / "node_modules" / ".bin" / "jest").symlink_to("../jest/bin/jest.js")
    assert shown(find(home, repo / "node_modules" / ".bin")) == {repo / "node_modules"}


def test_links_on_the_way_are_made_again(home: Path, tmp_path: Path):
    """An entry that goes through a link is found under its own name."""
    tool(tmp_path / "jdk-21" / "bin" / "java")
    (tmp_path / "current").symlink_to("jdk-21")
    found = find(home, tmp_path / "current" / "bin")
    assert shown(found) == {tmp_path / "jdk-21"}
    assert found.links == ((str(tmp_path / "current"), "jdk-21"),)


def test_a_circle_of_links_is_passed_over(home: Path, tmp_path: Path):
    """Broken and circular links of a person's PATH stop nobody."""
    entry = tmp_path / "odd" / "bin"
    entry.mkdir(parents=True)
    (entry / "a").symlink_to("b")
    (entry / "b").symlink_to("a")
    (entry / "gone").symlink_to("/nowhere/at/all")
    assert shown(find(home, entry)) == {tmp_path / "odd"}


def test_a_version_manager_is_shown_and_told_where_it_is(home: Path):
    """Shims choose a version by files under the home folder, another one inside; a clone's `.git` is no bar."""
    tool(home / ".pyenv" / "shims" / "python3")
    (home / ".pyenv" / ".git").mkdir()
    found = find(home, home / ".pyenv" / "shims")
    assert shown(found) == {home / ".pyenv"}
    assert found.managers == (("PYENV_ROOT", str(home / ".pyenv")),)


def test_relative_and_missing_entries_are_dropped(home: Path, tmp_path: Path):
    """A relative entry would run what a model wrote into the worktree."""
    tool(tmp_path / "a" / "bin" / "x")
    assert find(home, "", ".", "bin", "/nowhere", tmp_path / "a" / "bin").path == (str(tmp_path / "a" / "bin"),)


def test_secrets_are_not_let_through_and_asked_for_variables_are(home: Path):
    """The environment is a list of what is let through."""
    environ = {"ANTHROPIC_API_KEY": "k", "SSH_AUTH_SOCK": "/s", "LC_TIME": "C", "MY_FLAG": "1", "AWS_SECRET": "s"}
    seen = environment.lasting(environ, find(home), ["MY_FLAG", "NOT_SET"])
    assert seen["LC_TIME"] == "C"
    assert seen["MY_FLAG"] == "1"
    assert not {"ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "AWS_SECRET", "NOT_SET"} & seen.keys()
    assert environment.public({"DB_PASSWORD": "hush", "A": "b"}) == {"DB_PASSWORD": "(set)", "A": "b"}


def test_a_proxy_with_a_password_is_not_let_through():
    """A password in a proxy's address is a secret like any other."""
    assert environment.proxies({"HTTPS_PROXY": "http://me:pw@proxy:1", "http_proxy": "http://proxy:1"}) == {
        "http_proxy": "http://proxy:1"
    }


def test_the_identity_changes_with_the_tools_and_only_with_them(home: Path, tmp_path: Path):
    """Byte code and touched folders change nothing; a new package, version or tool does."""
    root = tmp_path / "venv"
    python = tool(root / "bin" / "python")
    site = root / "lib" / "python3.11" / "site-packages"
    (site / "thing-1.0.dist-info").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("home = /usr/bin\n")
    found = find(home, python.parent)
    before = identity(found)
    (site / "__pycache__").mkdir()
    (root / "unrelated").touch()
    assert identity(found) == before
    (site / "thing-1.0.dist-info").rename(site / "thing-1.1.dist-info")
    upgraded = identity(found)
    assert upgraded != before
    python.write_text("#!/bin/sh\nexit 1\n")
    assert identity(found) not in {before, upgraded}
