"""The template engine: Jinja2, everything compiled at start-up, nothing undefined ever rendered.

    engine = PromptEngine(Path(".taskyard/prompts"), SystemClock())
    text = engine.render("implementer.j2", {"task": task, ...})

A file in the overrides folder takes the place of the packaged template of the same name. It can still reach the
packaged one as `taskyard/NAME.j2`, to extend or include it. Text of boards, repositories and models is data only, never
a template.
"""

import difflib
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Lock
from types import TracebackType

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined, Template, TemplateSyntaxError, Undefined, nodes

from taskyard.services.clock import Clock
from taskyard.services.errors import ConfigError
from taskyard.services.prompts import text

PACKAGED = "taskyard/"
_SUFFIX = ".j2"
_References = nodes.Extends | nodes.Include | nodes.Import | nodes.FromImport


class TemplateStatistics(msgspec.Struct, frozen=True):
    """What happened to one template since the start. A snapshot."""

    name: str
    origin: str
    """The override's path, or `taskyard/NAME.j2` for the packaged one."""
    renders: int = 0
    """Successful ones."""
    errors: int = 0
    seconds: float = 0.0
    """Of all renders together, failed ones included."""


class _Source(msgspec.Struct, frozen=True):
    origin: str
    text: str


class PromptEngine:
    """Renders the prompt templates. Safe to use from several threads.

    Raises ConfigError at once when a template can't be compiled, refers to one that does not exist, or is an override
    that nothing uses. The message names the file and the line.
    """

    def __init__(self, overrides: Path | None, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sources = _packaged()
        own = _overrides(overrides) if overrides is not None else {}
        self._sources |= {PACKAGED + name: source for name, source in self._sources.items()} | own
        self._environment = _environment(self._sources)
        _check_references(self._environment, self._sources, own)
        self._templates = {name: self._compile(name) for name in sorted(self._sources)}
        self._statistics = {
            name: TemplateStatistics(name, source.origin)
            for name, source in sorted(self._sources.items())
            if not name.startswith(PACKAGED)
        }

    def render(self, name: str, data: Mapping[str, object]) -> str:
        """The template `name` (`planner.j2`) with `data`; the same inputs give the same bytes.

        Raises ConfigError when a variable is missing (the message names template, line and variable), when a value
        can't be shown, and when there is no such template.
        """
        if name not in self._statistics:
            raise ConfigError(f"there is no prompt template {name}; there are: {', '.join(self._statistics)}")
        started = self._clock.monotonic()
        try:
            rendered = self._render(name, data)
        except ConfigError:
            self._count(name, started, errors=1)
            raise
        self._count(name, started, renders=1)
        return rendered

    def check(self, name: str, data: Mapping[str, object]) -> None:
        """Render without counting: does the template hold with such data? Raises ConfigError."""
        self._render(name, data)

    def statistics(self) -> tuple[TemplateStatistics, ...]:
        """A snapshot, sorted by name."""
        with self._lock:
            return tuple(self._statistics.values())

    def _compile(self, name: str) -> Template:
        try:
            return self._environment.get_template(name)
        except TemplateSyntaxError as error:
            raise _broken(self._sources[name].origin, error) from error

    def _render(self, name: str, data: Mapping[str, object]) -> str:
        try:
            return self._templates[name].render(data)
        # A template is a program of the user's: whatever it raises is a fault of its text, and told as such.
        except Exception as error:
            origin, line = self._place(error.__traceback__) or (self._sources[name].origin, 0)
            where = f"{origin}, line {line}" if line else origin
            why = "it includes itself without end" if isinstance(error, RecursionError) else str(error)
            raise ConfigError(f"prompt template {where}: {why}") from error

    def _place(self, traceback: TracebackType | None) -> tuple[str, int] | None:
        """Template and line of the innermost template frame: Jinja puts both into the traceback."""
        origins = {source.origin for source in self._sources.values()}
        found = None
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_filename
            if name in origins:
                found = (name, traceback.tb_lineno)
            traceback = traceback.tb_next
        return found

    def _count(self, name: str, started: float, *, renders: int = 0, errors: int = 0) -> None:
        seconds = self._clock.monotonic() - started
        with self._lock:
            before = self._statistics[name]
            self._statistics[name] = TemplateStatistics(
                name, before.origin, before.renders + renders, before.errors + errors, before.seconds + seconds
            )


def _environment(sources: Mapping[str, _Source]) -> Environment:
    def load(name: str) -> tuple[str, str, None] | None:
        source = sources.get(name)
        return (source.text, source.origin, None) if source else None

    environment = Environment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        finalize=_shown,
    )
    del environment.filters["random"]
    del environment.globals["lipsum"]
    environment.filters |= {"fence": text.fence, "tail": text.tail, "clip": text.clip, "one_line": text.one_line}
    return environment


def _shown(value: object) -> object:
    """Only text and numbers may stand in a prompt: the form of other objects depends on the process that shows them."""
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Undefined):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be shown; show its fields")


def _packaged() -> dict[str, _Source]:
    folder = resources.files("taskyard.services.prompts") / "templates"
    return {name: _Source(PACKAGED + name, file.read_text("utf-8")) for name, file in _walk(folder, "")}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield prefix + entry.name, entry


def _overrides(folder: Path) -> dict[str, _Source]:
    if not folder.exists():
        return {}
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; it should hold prompt templates named NAME.j2")
    found = {}
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        try:
            found[path.relative_to(folder).as_posix()] = _Source(str(path), path.read_text("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"prompt template {path} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
        except OSError as error:
            raise ConfigError(f"prompt template {path} can't be read: {error.strerror}") from error
    return found


def _check_references(
    environment: Environment, sources: Mapping[str, _Source], overrides: Mapping[str, _Source]
) -> None:
    used: set[str] = set()
    computed = False
    for source in sources.values():
        for names, line, required in _references(environment, source):
            computed = computed or not names
            used.update(names)
            if required and names and not any(name in sources for name in names):
                raise ConfigError(f"prompt template {source.origin}, line {line}: there is no template {names[0]}")
    known = {name.removeprefix(PACKAGED) for name in sources if name.startswith(PACKAGED)}
    for name, source in overrides.items():
        if name not in known | used and not computed:
            near = difflib.get_close_matches(name, known, 1) or [", ".join(sorted(known))]
            raise ConfigError(f"prompt template {source.origin} is used by nothing; did you mean {near[0]}?")


def _references(environment: Environment, source: _Source) -> Iterator[tuple[tuple[str, ...], int, bool]]:
    """(names, line, whether one must exist) of each extends, include and import; no names when they are computed."""
    try:
        tree = environment.parse(source.text)
    except TemplateSyntaxError as error:
        raise _broken(source.origin, error) from error
    for node in tree.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
        assert isinstance(node, _References)
        try:
            value = node.template.as_const()
        except nodes.Impossible:
            value = ()
        names = (value,) if isinstance(value, str) else tuple(value)
        yield names, node.lineno, not (isinstance(node, nodes.Include) and node.ignore_missing)


def _broken(origin: str, error: TemplateSyntaxError) -> ConfigError:
    return ConfigError(f"prompt template {origin}, line {error.lineno}: {error.message}")
