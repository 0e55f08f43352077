"""`python -m lab.run --judge-again DIR --json FILE`: kept recordings judged by the rules of today, beside the gains that were measured then."""

import json
from pathlib import Path
from typing import Any

from lab.outcomes import Outcome, Run, outcome
from lab.pairs import PAIRS
from lab.runner import judged


def judge_again(results: dict[str, Any], recordings: Path) -> tuple[dict[str, Any], list[str]]:
    """`results` with today's advice and promises, and the programs of which `recordings` has nothing, left as they were.

    What the finding promised when the lab ran stays in `promised_then` where it is another range by now.
    """
    lacking: dict[str, None] = {}

    def again(run: Run | None) -> Run | None:
        if run is None or run["measured"] is None:
            return run
        file = recordings / f"{run['program']}.jsonl.gz"
        if not file.exists():
            lacking[run["program"]] = None
            return run
        new: Run = {**run, "trouble": None}
        new["trouble"] = judged(new, file)
        return new

    pairs = {pair.name: pair for pair in PAIRS}
    found: list[Outcome] = []
    for old in results["pairs"]:
        if old["pair"] not in pairs:
            continue
        before = again(old["before"])
        assert before is not None
        new = outcome(pairs[old["pair"]], before, again(old["after"]))
        first = old.get("promised_then") or old["promised"]
        new["promised_then"] = first if first and first != new["promised"] else None
        if "machine" in old:
            new["machine"] = old["machine"]
        found.append(new)
    return {"machine": results["machine"], "pairs": found}, list(lacking)


def rewrite(file: Path, recordings: Path) -> list[str]:
    """Put what `judge_again` says into `file`; the programs that have no recording."""
    results, lacking = judge_again(json.loads(file.read_text()), recordings)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    part.replace(file)
    return lacking
