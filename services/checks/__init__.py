"""Start commands on a tree: checks and set-up, shut in by a sandbox, bounded, and gone when they end.

    sandbox = choose_sandbox(settings.sandbox, unsafe_local=options.unsafe_local, environ=os.environ)
    runner = LocalRunner(sandbox, clock)
    async with pool.lay_out(tree) as worktree:
        result = await runner.run(check, tree=tree, folder=worktree.path)
    result.green                     # exit 0, and it really ran
    result.broken                    # why it did not really run (not found, no tests, sandbox), and what to do
    result.output                    # bounded, safe to print, the same for two equal runs

    results = Results(db)            # green results, by (tree, command, network, environment)
    await results.keep(result, check, sandbox.key)

What a command may see and do: `bubblewrap.py`; its environment: `environment.py`; what is taken out of its output:
`normalise.py`. This is the only room that starts commands other than git.
"""

from taskyard.services.checks.choose import choose_sandbox
from taskyard.services.checks.normalise import normalise
from taskyard.services.checks.output import BoundedOutput, clean
from taskyard.services.checks.results import MIGRATIONS, Results
from taskyard.services.checks.runner import SETUP, CheckRunner, LocalRunner
from taskyard.services.checks.sandbox import Sandbox

__all__ = [
    "MIGRATIONS",
    "SETUP",
    "BoundedOutput",
    "CheckRunner",
    "LocalRunner",
    "Results",
    "Sandbox",
    "choose_sandbox",
    "clean",
    "normalise",
]
