"""What a command line may tell: the program's name, its engine or launcher, and the values of known flags.

Nothing else of a command line is kept; `wire/labels.py` lists the flags, `agents/collectors/plain_words.py` what a value may be.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from agents.collectors import plain_words
from wire.labels import FLAG_NAMES, FLAGS

INTERPRETER: Final = re.compile(r"(?:python|pypy|pt_main_thread|bash|sh|dash|perl|ruby|node|julia|java|Rscript)[\d.]*w?")
_SAFE: Final = re.compile(r"[\w.+-]{1,64}")
_INLINE: Final = re.compile(r"-[A-Za-z]*c")  # the next argument is a program, not a file
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
MAX_WORDS: Final = 1024

_ENGINES: Final = (
    ("vllm", re.compile(r"vllm|vllm\.entrypoints(?:\.\w+)*|VLLM::\w+")),
    ("sglang", re.compile(r"sglang|sglang\.launch_server|sglang_router\.launch_server|sglang::\w+")),
    ("trtllm", re.compile(r"trtllm-serve|tensorrt_llm\.commands\.serve")),
    ("triton", re.compile(r"tritonserver")),
)
_LAUNCHERS: Final = (
    ("torchrun", re.compile(r"torchrun|torch\.distributed\.(?:run|launch)")),
    ("deepspeed", re.compile(r"deepspeed(?:\.launcher\.\w+)?")),
    ("accelerate", re.compile(r"accelerate|accelerate-launch|accelerate\.commands\.(?:launch|accelerate_cli)")),
    ("megatron", re.compile(r"pretrain_(?:gpt|bert|t5|llama|mamba|ict|vlm|retro|vision_\w+)\.py")),
)
_STARTS: Final = {"vllm": ("serve",), "sglang": ("serve",), "accelerate": ("launch",)}
"""Commands that do other things too: without one of these words behind the name they start nothing."""


def program(words: Sequence[str]) -> str | None:
    """The script's file name or module that an interpreter runs, from its command line; None where there is none."""
    found = _program(words)
    return found[0] if found is not None else None


def _program(words: Sequence[str]) -> tuple[str, int] | None:
    """The name, and where in `words` it stands."""
    rest = iter(range(1, len(words)))
    for place in rest:
        word = words[place]
        if word == "-m":
            module = next(rest, None)
            name = words[module] if module is not None else ""
            return (name, place + 1) if _SAFE.fullmatch(name) else None
        if _INLINE.fullmatch(word):
            return None
        if word in _WITH_VALUE:
            next(rest, None)
            continue
        if word.startswith("-"):
            continue
        name = os.path.basename(word)
        return (name, place) if _SAFE.fullmatch(name) else None
    return None


def describe(words: Sequence[str], user: str) -> dict[str, str]:
    """Labels `engine`, `launcher` and `flag.NAME` of a command line; empty where it is of no known kind and has no known flag.

    Words and models are told of engines and launchers alone, numbers of any program. `user` is a word never told.
    """
    words = words[:MAX_WORDS]
    if not words or not words[0]:
        return {}
    first = os.path.basename(words[0].split(" ", 1)[0])
    name, place = first, 0
    if INTERPRETER.fullmatch(first):
        found = _program(words)
        if found is None:
            return {}
        name, place = found
    labels: dict[str, str] = {}
    after = words[place + 1] if place + 1 < len(words) else ""
    for label, known in (("engine", _ENGINES), ("launcher", _LAUNCHERS)):
        for kind, pattern in known:
            if pattern.fullmatch(name) and (name not in _STARTS or after in _STARTS[name]):
                labels[label] = kind
                break
    known_program = bool(labels)
    if name == "vllm" and known_program and place + 2 < len(words) and not words[place + 2].startswith("-"):
        model = plain_words.model(words[place + 2], user)
        labels |= {"flag.model": model} if model is not None else {}
    return labels | _flags(words[place + 1 :], user, known_program)


def _flags(words: Sequence[str], user: str, known_program: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        if word == "--":
            break
        if not word.startswith("-"):
            continue
        written, is_joined, value = word.partition("=")
        name = written.lstrip("-").replace("_", "-")
        name = FLAG_NAMES.get(name, name)
        negated = name.startswith("no-") and FLAGS.get(name.removeprefix("no-")) == "boolean"
        kind = "boolean" if negated else FLAGS.get(name)
        if kind is None or (kind not in ("number", "boolean") and not known_program):
            continue
        if not is_joined:
            value = words[place + 1] if place + 1 < len(words) else ""
        told = plain_words.of_kind(kind, value, user, is_switch=kind == "boolean" and not is_joined)
        if told is not None:
            found[f"flag.{name.removeprefix('no-') if negated else name}"] = "false" if negated else told
    return found
