"""The environment that a command sees: a list of what is let through, never of what is held back.

| variable | value |
|---|---|
| `PATH` | yours, without entries that are relative or missing |
| `LANG` (`C.UTF-8` when unset), `LANGUAGE`, `LC_*`, `TZ`, `USER`, `LOGNAME` | yours |
| `VIRTUAL_ENV`, `CONDA_PREFIX`, `JAVA_HOME`, `GOROOT`, `DOTNET_ROOT` | yours, when PATH leads into that folder |
| `PYENV_ROOT`, `RUSTUP_HOME`, … | the folder of a version manager that PATH leads into |
| `PYENV_VERSION`, `RBENV_VERSION`, `NODENV_VERSION`, `RUSTUP_TOOLCHAIN` | yours |
| `HOME`, `TMPDIR` | private to this one command, empty at its start |
| `TERM=dumb`, `NO_COLOR=1` | no escape sequences |
| `CI=1` | no watch modes, no questions |
| `PYTHONDONTWRITEBYTECODE=1` | the worktree holds only what the command is about |
| `GIT_CEILING_DIRECTORIES` | the folder above the worktree, so that git finds no repository around it |
| `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, both cases | yours, with `network = true`, unless they hold a password |
| `SSL_CERT_FILE`, `PIP_CERT` and their like | yours, with `network = true`, when the file is there |

and the names in `[sandbox] env`. Keys, tokens and sockets of agents are not among them.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from taskyard.services.checks.toolchains import Toolchains, inside

_KEPT = {
    "LANGUAGE", "TZ", "USER", "LOGNAME", "PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "RUSTUP_TOOLCHAIN",
}  # fmt: skip
_ROOTS = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "DOTNET_ROOT")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_CERTIFICATES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
)  # fmt: skip
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)


def lasting(environ: Mapping[str, str], toolchains: Toolchains, extra: Iterable[str]) -> dict[str, str]:
    """The part of the environment that is the same for every check of a run. extra: `[sandbox] env`."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or name.startswith("LC_")}
    roots = {
        name: environ[name]
        for name in _ROOTS
        if environ.get(name) and any(inside(entry, (environ[name].rstrip("/"),)) for entry in toolchains.path)
    }
    fixed = {
        "PATH": ":".join(toolchains.path),
        "LANG": environ.get("LANG") or "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    asked = {name: environ[name] for name in extra if name in environ and name != "PATH"}
    return {**kept, **roots, **dict(toolchains.managers), **fixed, **asked}


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Proxy variables for a check with network; one with a password in it needs `[sandbox] env`."""
    return {name: environ[name] for name in _PROXIES if environ.get(name) and "@" not in environ[name]}


def certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that name a file of public certificates, for a check with network."""
    return {name: environ[name] for name in _CERTIFICATES if environ.get(name) and Path(environ[name]).is_file()}


def for_one(always: Mapping[str, str], *, folder: Path, home: str, temporary: str) -> dict[str, str]:
    """The whole environment of one command in `folder`."""
    private = {"HOME": home, "TMPDIR": temporary, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return {**always, **private}


def public(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that may become part of a name: a secret's value never does, only that it is set."""
    return {name: "(set)" if _SECRET.search(name) else value for name, value in variables.items()}
