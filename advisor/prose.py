"""What a rule says in plain words beside its marked texts: why it stands where it does, and the comments and placeholders in its changes.

The reasons are the paragraphs of the docstring of the rule's file, and a comment is what follows `# ` in a line of a change. Both are
collected for translation as they are (`manage.py makemessages`), so that a rule is still one file without a second copy of anything.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

from advisor import rule, rules, xid_catalog, xid_rules
from advisor.text import fields

_COMMENT: Final = re.compile(r"(?m)^((?:[-+]?[ ]*)|(?:.*?[ ]{2}))# (\S.*)$")
_FIELD: Final = re.compile(r"(?<!\{)\{(\w+)(?::[^{}]*)?\}")
_PLACEHOLDERS: Final = (
    "train.py", "job.sh", "model.onnx", "app:app", "CHECKPOINTS", "CHECKPOINT", "COMMAND", "DIGEST", "IMAGE", "MODEL", "NAME", "NODE", "MIN", "MAX",
    "A", "B", "N", "W",
)  # fmt: skip
_PLACEHOLDER: Final = re.compile(rf"(?<![\w$./-])(?:{'|'.join(map(re.escape, _PLACEHOLDERS))})(?![\w(=]|\.(?!service)|:USR1)")


def why(rule_id: str) -> tuple[str, ...]:
    """The paragraphs that tell why the rule stands where it does, each on one line, in English."""
    module = importlib.import_module(f"{rules.__name__}.{rule_id.replace('-', '_')}")
    return tuple(" ".join(part.split()) for part in (module.__doc__ or "").strip().split("\n\n"))


def comments(change: str) -> tuple[str, ...]:
    """The comments of a step of a change, one for each line that has one."""
    return tuple(found[2] for found in _COMMENT.finditer(change))


def with_comments(change: str, said: Callable[[str], str]) -> str:
    """The step with each of its comments as `said` says it; the code stays as it is.

    In a step of a finding the values are filled in: then its comment is known again by what stands around them.
    """
    return _COMMENT.sub(lambda found: f"{found[1]}# {_spoken(found[2], said)}", change)


def placeholders(change: str) -> tuple[str, ...]:
    """The names in a step that stand for the reader's own, such as `train.py` or `MODEL`, each once, in order."""
    code = _COMMENT.sub(lambda found: found[1], change)
    return tuple(dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(code)))


def texts() -> Iterator[str]:
    """Every text of all rules that is translated and is marked nowhere: their reasons and comments."""
    for one in rule.load():
        yield from why(one.id)
    yield from _comments()


@cache
def _comments() -> tuple[str, ...]:
    """The comments of all steps there are, each once, in order."""
    steps = [step.text for one in rule.load() for step in one.change]
    for health in xid_catalog.HEALTH:
        steps += [change.text for changes in (health.change, *health.instead.values()) for change in changes]
    steps += [f"# {xid_catalog.ACTION}", *(change.text for change in xid_rules.SWITCH_CHANGE)]
    return tuple(
        dict.fromkeys(
            comment.replace("{{", "{").replace("}}", "}") if not fields(comment) else comment
            for step in steps
            for comment in comments(step)
        )
    )


@cache
def _with_fields() -> Mapping[str, re.Pattern[str]]:
    """The comments that hold values, each with what it looks like once they are filled in."""
    found = {}
    for comment in _comments():
        if "{" in comment and fields(comment):
            parts = _FIELD.split(comment)
            found[comment] = re.compile(
                "".join(re.escape(part) if k % 2 == 0 else f"(?P<{part}>.+?)" for k, part in enumerate(parts)) + r"\Z"
            )
    return found


def _spoken(comment: str, said: Callable[[str], str]) -> str:
    if (plain := said(comment)) != comment:
        return plain
    for source, pattern in _with_fields().items():
        if match := pattern.match(comment):
            return _filled(said(source), match.groupdict())
    return comment


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda found: values[found[1]], text)
