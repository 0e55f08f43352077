"""`job_family(job)`: what the runs of one program have in common, whatever node they are on and whatever number they bear.

A site's thresholds hold for a family, and its past runs are compared by it (fleet/slow): there is one definition of it, here.
"""

import re
from typing import Final

_RUN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"\d{4}-?\d{2}-?\d{2}(?:[T_-]?\d{2}[:-]?\d{2}(?:[:-]?\d{2})?)?Z?"  # a day, or a moment
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}"  # a commit, a hash
    r"|(?:run|job|trial|seed|attempt|try|exp|rep|fold)[_.=-]?\d+"
    r"|0\d+|\d{5,}"  # a counter with noughts before it, a scheduler's number, seconds since 1970
    r")(?![A-Za-z0-9])"
)
"""What tells one run of a program from the next. A shorter number is the name's own: resnet-50, vit-1024, llama-3-405b."""
_NUMBER: Final = re.compile(r"\d+")
_BETWEEN: Final = " _.:@#=-"
_LEFT: Final = re.compile(rf"[{_BETWEEN}]*(?:\[\d+\])?\Z")
_DOUBLE: Final = re.compile(r"([_.-])[_.-]+")


def job_family(job: str, node: str | None = None) -> str:
    """`user/program` of the job `node/user/program`, without run numbers, dates and hashes in the program's name.

    `node`: the name of the job's node, where it is known (it may hold a slash). A job that bears no node, such as a recording, is its
    own program. A name that is nothing but a number stays as it is.
    """
    placed = job.removeprefix(f"{node}/") if node is not None else job.partition("/")[2] or job
    user, slash, program = placed.partition("/")
    if not slash:
        return _without_run(user)
    return f"{user}/{_without_run(program)}"


def _without_run(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    if not (dot and ending.isalpha()):
        stem, ending = name, ""
    plain = _trimmed(_RUN.sub("", stem)) or _trimmed(_NUMBER.sub("", stem))
    if not plain:
        return name
    return f"{plain}.{ending}" if ending else plain


def _trimmed(name: str) -> str:
    return _LEFT.sub("", _DOUBLE.sub(r"\1", name)).lstrip(_BETWEEN)
