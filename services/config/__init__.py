"""Settings: flags, environment, `taskyard.toml` and `[tool.taskyard]` become one frozen `Settings`.

    settings = load(top, os.environ, {"run.lane": "live"})
    settings.run.concurrency        # from the flag, else TASKYARD_RUN_CONCURRENCY, else a file, else the default 10
    folders(top, os.environ).state  # where this repository's database and git objects live

Each source is checked whole, also where a higher one overrides it: an unknown setting or a bad value is a
`ConfigError` that names the source, the setting, what was given and what is allowed. Units are fixed after loading:
seconds (float), bytes (int), US dollars (float); "none" has become None.
"""

from taskyard.services.config.folders import Folders, folders, network_file_system
from taskyard.services.config.load import load
from taskyard.services.config.sections import (
    BatchSettings,
    CacheSettings,
    CheckDefaults,
    GateSettings,
    HistorySettings,
    ImplementerSettings,
    LandingSettings,
    LessonsSettings,
    LocksSettings,
    ModelsSettings,
    RunSettings,
    SandboxSettings,
    ScreenSettings,
    Settings,
    SetupSettings,
)
from taskyard.services.config.template import template

__all__ = [
    "BatchSettings",
    "CacheSettings",
    "CheckDefaults",
    "Folders",
    "GateSettings",
    "HistorySettings",
    "ImplementerSettings",
    "LandingSettings",
    "LessonsSettings",
    "LocksSettings",
    "ModelsSettings",
    "RunSettings",
    "SandboxSettings",
    "ScreenSettings",
    "Settings",
    "SetupSettings",
    "folders",
    "load",
    "network_file_system",
    "template",
]
