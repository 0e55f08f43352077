"""What one advisor cycle takes: a fleet made of the recordings, in a store and a database of its own, judged by a fresh process.

    python bench/advise.py --gpus 10000

The fleet is played_fleet.py's: 10,000 GPUs on 1,250 nodes in 2,000 jobs, with what processes, serving engines and a scheduler tell, written as
ingest writes it: whole seconds of all, a file every five. What comes of hours and days is made once before, as its task does. The
cycle is judge(): it reads the store, computes, and brings findings and diagnoses up to date. The first one makes them all, and folds
five minutes of the rarer metrics; the next, ten seconds later, is what a worker does all the time; the one that a minute ended before
folds that minute too, one in six. Prints human lines, then one JSON object: gpus, rules, and of the first and next cycle cpu_s,
wall_s; rss_bytes of the process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from config.worker import settle  # before Polars, as in a worker: it says how memory is kept

from bench.played_fleet import build  # isort: skip

CYCLES: Final = {"first": 60, "next": 50, "minute": 0}
"""By cycle, how many seconds before the last sample it judges."""
EARLIER_S: Final = 90
"""Of samples, so much before the window: the whole minutes that end in it begin there."""
PARTS: Final = {
    "read": [("fleet.store.clock", "window")],
    "measure": [("fleet.findings.windows", "measured"), ("fleet.findings.judge", "features_of")],
    "rarer": [("fleet.findings.judge", "more"), ("fleet.findings.judge", "with_more")],
    "evaluate": [("fleet.findings.judge", "verdict")],
    "keep": [("fleet.findings.judge", "diagnose"), ("fleet.findings.diagnoses", "keep"), ("fleet.findings.judge", "reconcile")],
}
"""What a cycle's CPU time goes into, by the functions that are timed for it; what they call of another part is not theirs."""


def main(argv: list[str] | None = None) -> int:
    """Build the fleet, have it judged, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--judge", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.judge is not None:
        return judge_fleet(options.gpus, options.judge)
    with tempfile.TemporaryDirectory(prefix="fettle-bench-") as data:
        os.environ.update(FETTLE_DATA=data, FETTLE_DEBUG="1", DJANGO_SETTINGS_MODULE="config.settings")
        subprocess.run([sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0"], cwd=ROOT, check=True)
        end = int(time.time()) // 60 * 60 - 30  # the first two cycles lie in one minute, the third in the one after
        rows = build(options.gpus, options.seconds + EARLIER_S, end)
        size = sum(path.stat().st_size for path in Path(data, "series").rglob("*") if path.is_file())
        print(f"{options.gpus} GPUs: {rows:,} rows, {size / 1e6:.0f} MB in the store")
        print(f"the task that reads hours and days took {refreshed(end):.2f} s CPU", flush=True)  # before the child's
        command = [sys.executable, __file__, "--gpus", str(options.gpus), "--judge", str(end)]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def refreshed(end: int) -> float:
    """Make what comes of hours and days; the seconds of CPU that it took."""
    from datetime import UTC, datetime

    from fleet.slow.refresh import refresh

    before = time.process_time()
    refresh(datetime.fromtimestamp(end, UTC))
    return time.process_time() - before


def judge_fleet(gpus: int, end: int) -> int:
    """Judge the fleet in this process; all it did before is import and connect."""
    from datetime import UTC, datetime

    import django

    django.setup()
    from advisor import rule
    from fleet.findings import judge
    from fleet.findings.models import Diagnosis, Finding

    settle()
    parts = Parts()
    told: dict[str, Any] = {"gpus": gpus, "rules": len(rule.load())}
    print(" " * 8 + "".join(f"{name:>10}" for name in ("CPU s", "wall s", *PARTS)))
    for name, earlier in CYCLES.items():
        parts.spent.clear()
        before = time.process_time(), time.perf_counter()
        judge.judge(datetime.fromtimestamp(end - earlier, UTC))
        cpu_s, wall_s = time.process_time() - before[0], time.perf_counter() - before[1]
        if name != "minute":
            told[name] = {"cpu_s": round(cpu_s, 2), "wall_s": round(wall_s, 2)}
        print(f"{name:<8}" + "".join(f"{took:10.2f}" for took in (cpu_s, wall_s, *(parts.spent[part] for part in PARTS))))
    told["rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    jobs = Diagnosis.objects.filter(scope="job").count()
    print(
        f"{told['rules']} rules, {jobs} jobs, {Finding.objects.filter(resolved_at=None).count()} open findings, "
        f"{Diagnosis.objects.count()} diagnoses, {told['rss_bytes'] / 1e6:.0f} MB at most"
    )
    print(json.dumps(told))
    return 0


class Parts:
    """Times the functions of PARTS: `spent` has CPU seconds by part."""

    def __init__(self) -> None:
        from importlib import import_module

        self.spent: dict[str, float] = defaultdict(float)
        self._inner = [0.0]  # what the functions within the one that runs took, from the outside in
        for part, functions in PARTS.items():
            for module, name in functions:
                home = import_module(module)
                setattr(home, name, self._timed(part, getattr(home, name)))

    def _timed(self, part: str, function: Any) -> Any:
        def timed(*given: Any, **named: Any) -> Any:
            began = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*given, **named)
            finally:
                took, inner = time.process_time() - began, self._inner.pop()
                self.spent[part] += took - inner
                self._inner[-1] += took

        return timed


if __name__ == "__main__":
    sys.exit(main())
