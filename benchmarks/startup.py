"""How long `taskyard --help` takes, as a multiple of an interpreter that does nothing.

    python benchmarks/startup.py [--smoke]

Both are started in turn, many times; the medians are compared. The ratio travels between machines, seconds do not.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run of the command."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    rounds = 5 if "--smoke" in sys.argv[1:] else 40
    bare = [sys.executable, "-c", "pass"]
    tool = [str(Path(sys.executable).with_name("taskyard")), "--help"]
    pairs = [(seconds(bare), seconds(tool)) for _ in range(rounds)]
    base = statistics.median(first for first, _ in pairs)
    own = statistics.median(second for _, second in pairs)
    print(f"python -c pass   {base * 1000:7.1f} ms")
    print(f"taskyard --help  {own * 1000:7.1f} ms   {own / base:.1f} times ({rounds} rounds)")


if __name__ == "__main__":
    main()
