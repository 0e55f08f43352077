"""Stands where `fettle` stands, for the lab's runner: a real process that takes a recording of the repository as what it sampled.

`stand_in.py run --record FILE -- NAME [SETTING...]`; NAME is a recording, or one of the ways in which a program ends badly.
"""

# ruff: noqa: T201 - it stands for programs that print
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parent.parent / "recordings"
LABELS = HERE.parent / "advisor" / "labels.json"


def main() -> int:
    """What the program's exit code would be."""
    file, name, *settings = sys.argv[3], *sys.argv[5:]
    if name == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        Path(os.environ["STAND_IN_PID"]).write_text(str(child.pid))
        time.sleep(60)
    if name == "fails":
        print("Traceback\nRuntimeError: /opt/site/torch/cuda.py: out of memory", file=sys.stderr)
        return 3
    shutil.copy(RECORDINGS / f"{name}.jsonl.gz", file)
    if settings != ["mute"]:
        rate = json.loads(LABELS.read_text())[name]["items_per_s"]
        print("a line of its own")
        print(json.dumps({"program": name, "unit": "items", "units": rate * 10, "seconds": 10.0, "settings": settings}))
    with Path(os.environ["STAND_IN_LOG"]).open("a") as log:
        log.write(f"{name} {os.environ['CUDA_VISIBLE_DEVICES']} {os.environ['LAB_DISK']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
