"""docs/how-to/annotate.md: its script for Slurm, run as it stands there."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "annotate.md"
CURL = '#!/bin/sh\ncat >>"$SENT"\necho \';\' >>"$SENT"\n'


@pytest.mark.parametrize(
    ("status", "code"),
    [("0", 0), ("256", 1), (str(137 << 8), 137), ("9", 137), ("139", 139), ("", None), (None, None), ("?", None)],
)
def test_the_epilog_tells_how_a_job_ended(tmp_path: Path, status: str | None, code: int | None) -> None:
    """A wait status: an exit code of its own, 128 + n after signal n (139 is signal 11 with a core dump); an unknown end is not told."""
    script = next(part for part in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) if "SLURM_JOB_EXIT_CODE" in part)
    curl, sent = tmp_path / "curl", tmp_path / "sent"
    curl.write_text(CURL)
    curl.chmod(0o755)
    names = {
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_USER": "ann",
        "PROGRAM": "train.py",
        "FETTLE": "http://127.0.0.1:9",
        "TOKEN": "x",
    }
    known = {} if status is None else {"SLURM_JOB_EXIT_CODE": status}
    environment = {**names, **known, "SENT": str(sent), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    ran = subprocess.run(["sh", "-eu"], input=script, env=environment, capture_output=True, text=True, check=False)

    told = [one for body in sent.read_text().split(";\n") if body for one in json.loads(body)]
    ends = [(one["target"], one["value"]) for one in told if one["key"] == "exit_code"]
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ends == ([] if code is None else [("n1/ann/train.py", code)])
