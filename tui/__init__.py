"""Everything a person sees: the command line, and a run as plain lines or as JSON lines.

    $ taskyard board show board.md      # what was understood, before anything is spent
    $ taskyard run board.md             # plain lines, a summary at the end, an exit code
    $ taskyard run board.md --json      # the events of the run, one JSON object a line

`cli` is the command line, `plain` turns events into lines, `reports` the answers of the other commands into text.
All text that comes from outside (boards, models, checks, git) passes `clean.clean` before a terminal sees it.
Nothing heavy is imported before a command needs it: `taskyard --help` answers at once.
"""
