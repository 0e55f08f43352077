"""What a reported step costs a training script: microseconds a call of `fettle_report.step`, by what it tells, and of one that sends.

Without an agent, and with a real one's receiver in another process. Prints human lines, then one JSON line.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "clients")]

from agents import reports


def _listen(path: str, ready: Any, stop: Any) -> None:
    """The agent's side: its receiver in an event loop of its own."""

    async def serve() -> None:
        received = reports.Reports((Path(path),))
        received.attach()
        ready.set()
        await asyncio.to_thread(stop.wait)
        received.close()

    asyncio.run(serve())


def measure(calls: int) -> dict[str, float]:
    """Median microseconds a call over rounds of 1,000, of steps as they come, with four figures and with all, and of those that send at once."""
    import fettle_report as client  # type: ignore[import-not-found]

    found = {}
    plain = {"samples": 256, "loss": 0.5, "data_wait_s": 0.01, "loss_scale": 1024.0}
    whole = plain | {"tokens": 524_288, "h2d_s": 0.001, "comm_s": 0.002, "grad_norm": 1.5}
    for name, told, every, size in (
        ("step", plain, client.SEND_S, 1000),
        ("step that tells all", whole, client.SEND_S, 1000),
        ("step that sends", whole, 0.0, 50),
    ):
        before, client.SEND_S = client.SEND_S, every
        client._begin_anew()
        rounds = []
        for _ in range(calls // size):
            began = time.perf_counter()
            for _ in range(size):
                client.step(**told)
            rounds.append((time.perf_counter() - began) / size * 1e6)
            if every == 0.0:
                time.sleep(0.07)  # a training script steps more slowly than the agent reads
        client.SEND_S = before
        found[name] = round(statistics.median(rounds), 2)
    return found


def main() -> int:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000, help="how many steps each figure is taken from")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ["FETTLE_REPORT_SOCKET"] = f"{folder}/report.sock"
        without = measure(options.calls)
        ready, stop = context.Event(), context.Event()
        agent = context.Process(target=_listen, args=(path, ready, stop), daemon=True)
        agent.start()
        ready.wait(30)
        beside = measure(options.calls)
        stop.set()
        agent.join(10)
    for title, costs in (("without an agent", without), ("with an agent", beside)):
        print(f"{title:18}", ", ".join(f"{name} {cost:.2f} us" for name, cost in costs.items()))
    print(json.dumps({"python": sys.version.split()[0], "without_agent": without, "with_agent": beside}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
