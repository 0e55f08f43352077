"""`python -m lab.run --json FILE`: run every pair of the lab under `fettle run` and say what the advice was worth."""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lab import again
from lab.outcomes import Outcome
from lab.page import page
from lab.pairs import PAIRS, Pair
from lab.runner import Runner

BUDGET_S: Final = 540.0
PROBE_S: Final = 120.0
_PROBE: Final = """
import json, os, torch
names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
print(json.dumps({"gpus": names, "torch": torch.__version__, "cuda": torch.version.cuda, "cores": len(os.sched_getaffinity(0))}))
"""

Begin = Callable[[Pair], bool]


class Results:
    """The results' file: whole after each pair, and kept over several runs."""

    def __init__(self, file: Path, machine: dict[str, Any]) -> None:
        self._file = file
        self._lock = threading.Lock()
        found = json.loads(file.read_text()) if file.exists() else {"pairs": []}
        self._pairs: dict[str, Any] = {one["pair"]: one for one in found["pairs"]}
        self._machine = machine

    def good(self, pair: Pair) -> bool:
        """True where the file has the pair without a problem."""
        return pair.name in self._pairs and not self._pairs[pair.name]["problems"]

    def take(self, outcome: Outcome) -> None:
        """Put in one pair's outcome, in place of an older one."""
        with self._lock:
            self._pairs[outcome["pair"]] = outcome
            part = self._file.with_name(self._file.name + ".part")
            part.write_text(json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n")
            part.replace(self._file)

    def as_json(self) -> dict[str, Any]:
        """All pairs, in the order of lab/pairs.py."""
        order = {pair.name: number for number, pair in enumerate(PAIRS)}
        pairs = sorted(self._pairs.values(), key=lambda one: order.get(one["pair"], len(order)))
        return {"machine": self._machine, "pairs": pairs}


def groups(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """`pairs` by the program that they begin with, which runs once."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.before, []).append(pair)
    return list(found.values())


def run_all(runner: Runner, pairs: Sequence[Pair], devices: Sequence[str], begin: Begin, take: Callable[[Outcome], None]) -> None:
    """Run `pairs`: those that leave the host alone side by side, one on each device, then the others one by one.

    `begin` says whether there is time left for a pair; `take` gets each outcome, in a thread of its own.
    """
    waiting: queue.SimpleQueue[list[Pair]] = queue.SimpleQueue()
    for group in groups([pair for pair in pairs if pair.gpus == 1 and not pair.alone]):
        waiting.put(group)

    def beside(device: str) -> None:
        while True:
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                return
            for pair in group:
                if begin(pair):
                    take(runner.pair(pair, device))

    lanes = [threading.Thread(target=beside, args=(device,), daemon=True) for device in devices]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    for pair in pairs:
        if (pair.gpus > 1 or pair.alone) and begin(pair):
            take(runner.pair(pair, ",".join(devices[: pair.gpus])))


def told(outcome: Outcome) -> str:
    """One line on a pair."""
    gain = "no gain measured" if outcome["gain"] is None else f"{outcome['gain']:.2f} times the speed"
    promised = "nothing promised" if outcome["promised"] is None else "{:g} to {:g} promised".format(*outcome["promised"])
    problems = "".join(f"\n  {problem[:400]}" for problem in outcome["problems"])
    return f"{outcome['pair']} ({outcome['rule']}): {gain}, {promised}: {outcome['verdict']}{problems}"


def _machine() -> dict[str, Any]:
    """What the lab runs on; it also brings PyTorch into the page cache, so that the first program starts as fast as the others."""
    try:
        asked = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"lab: PyTorch did not tell of its GPUs within {PROBE_S:g} s; see whether the driver answers.") from None
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise SystemExit(f"lab: PyTorch cannot be asked for its GPUs: {last[0]}.")
    machine: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return machine | {"date": datetime.now(UTC).date().isoformat()}


def _parser() -> argparse.ArgumentParser:
    names = sorted({pair.name for pair in PAIRS} | {pair.rule for pair in PAIRS})
    parser = argparse.ArgumentParser(prog="lab.run", description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the results; what it has already stays")
    parser.add_argument(
        "--only", action="append", choices=names, metavar="RULE", help="a rule's or a pair's name; may be repeated"
    )
    parser.add_argument("--missing", action="store_true", help="leave out the pairs that the file has without a problem")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long a program is measured (default 8)")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="begin no pair that might end later")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="keep what was sampled there")
    parser.add_argument(
        "--judge-again",
        type=Path,
        metavar="DIR",
        help="run nothing: judge the recordings there anew, for the gains that the file has",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table there")
    return parser


def _judge_again(options: argparse.Namespace) -> int:
    if not options.json.exists():
        raise SystemExit(f"lab: {options.json}: there are no results; run the lab first, with --recordings.")
    lacking = again.rewrite(options.json, options.judge_again)
    for name in lacking:
        print(f"left as it was: {name}, of which there is no recording")
    results = json.loads(options.json.read_text())
    for one in results["pairs"]:
        print(told(one))
    if options.page:
        options.page.write_text(page(results, PAIRS))
    return int(bool(lacking) or any(one["problems"] for one in results["pairs"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all went as it should, 1 when a pair did not or was not run."""
    began = time.monotonic()
    options = _parser().parse_args(arguments)
    if options.judge_again:
        return _judge_again(options)
    machine = _machine()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = len(machine["gpus"])
    devices = visible.split(",")[:count] if visible else [str(index) for index in range(count)]
    if not devices:
        raise SystemExit("lab: PyTorch sees no GPU on this machine; the pairs need one or two.")
    results = Results(options.json, machine)
    only = set(options.only or ())
    pairs = [pair for pair in PAIRS if not only or {pair.name, pair.rule} & only]
    left_out: list[str] = []
    if options.missing:
        pairs = [pair for pair in pairs if not results.good(pair)]

    def take(outcome: Outcome) -> None:
        results.take(outcome)
        print(f"[{time.monotonic() - began:4.0f} s] {told(outcome)}", flush=True)

    with tempfile.TemporaryDirectory(prefix="fettle-lab-") as scratch:
        recordings = options.recordings or Path(scratch)
        recordings.mkdir(parents=True, exist_ok=True)
        runner = Runner(recordings, options.seconds)
        usual_s = 2 * (options.seconds + 12)

        def begin(pair: Pair) -> bool:
            if pair.gpus > len(devices):
                left_out.append(f"{pair.name}: needs {pair.gpus} GPUs")
            elif time.monotonic() - began + usual_s > options.budget:
                left_out.append(f"{pair.name}: no time left")
            else:
                return True
            return False

        last = threading.Timer(options.budget + usual_s / 2, runner.stop)  # whatever hangs, the whole ends
        last.daemon = True
        last.start()
        try:
            run_all(runner, pairs, devices, begin, take)
        finally:
            last.cancel()
            runner.stop()
    if options.page:
        options.page.write_text(page(results.as_json(), PAIRS))
    for line in left_out:
        print(f"not run: {line}")
    return int(bool(left_out) or not all(results.good(pair) for pair in pairs))


if __name__ == "__main__":
    sys.exit(main())
