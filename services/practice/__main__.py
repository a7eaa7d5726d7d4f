"""The practice server as a process: its first line is its URL; it ends when standard input closes, or by SIGTERM.

python -m taskyard.services.practice --port 0 --latency 0.05 --batch 2 --fault 529:2:3 --ledger paid.jsonl
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from threading import Event, Thread

import msgspec

from taskyard.services.errors import PracticeError
from taskyard.services.practice.engine import SERVED, Switches
from taskyard.services.practice.faults import KINDS, Fault, parse_fault
from taskyard.services.practice.server import PracticeServer, any_key_but_refused

_SWITCHES = Switches.__struct_fields__


def _fault(text: str) -> Fault:
    try:
        return msgspec.json.decode(text, type=Fault) if text.startswith("{") else parse_fault(text)
    except (PracticeError, msgspec.DecodeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskyard.services.practice", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 = a free one")
    add("--latency", type=float, default=0.0, metavar="SECONDS", help="of each live answer")
    add("--batch", type=float, default=0.0, metavar="SECONDS", help="until a batch has ended")
    add("--cancel", type=float, default=0.0, metavar="SECONDS", help="from the cancel of a batch to its end")
    add("--ledger", type=Path, metavar="FILE", help="append the payments to this file")
    add("--served", action="append", metavar="MODEL", help="a model that is served, or a pattern (again for more)")
    add("--key", action="append", metavar="KEY", help="accept only this key (again for more)")
    add("--without", action="append", default=[], choices=_SWITCHES, help="what this server lacks (again for more)")
    add(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="KIND:NTH:TIMES",
        help=f"or JSON; {' '.join(KINDS)}",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop. Returns the exit code: 0, or 2 when it could not start."""
    options = _parser().parse_args(arguments)
    stop = Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    try:
        server = PracticeServer(
            latency_s=options.latency,
            batch_s=options.batch,
            cancel_s=options.cancel,
            faults=options.fault,
            switches=Switches(**dict.fromkeys(options.without, False)),
            ledger=options.ledger,
            served=options.served or SERVED,
            accepts=options.key.__contains__ if options.key else any_key_but_refused,
            port=options.port,
        )
    except (OSError, PracticeError) as error:
        sys.stderr.write(f"practice server: {error}\n")
        return 2
    with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        Thread(target=_until_input_closes, args=(stop,), daemon=True).start()
        stop.wait()
    return 0


def _until_input_closes(stop: Event) -> None:
    # os.read and not sys.stdin: a thread that holds its lock would abort the interpreter's exit.
    while os.read(0, 4096):
        continue
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
