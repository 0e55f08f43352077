"""What a command line may tell: its engine or launcher, and the values of known flags.

Nothing else of a command line is kept; `wire/labels.py` lists the flags, `agents/collectors/plain_words.py` what a value may be,
`agents/collectors/interpreters.py` finds the script among an interpreter's words.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agents.collectors import interpreters, plain_words
from wire.labels import FLAG_NAMES, FLAGS

MAX_WORDS: Final = 1024

_ENGINES: Final = (
    ("vllm", re.compile(r"vllm|vllm\.entrypoints(?:\.\w+)*|VLLM::\w+")),
    ("sglang", re.compile(r"sglang|sglang\.launch_server|sglang_router\.launch_server|sglang::\w+")),
    ("trtllm", re.compile(r"trtllm-serve|tensorrt_llm\.commands\.serve")),
    ("triton", re.compile(r"tritonserver")),
)
_SERVERS: Final = re.compile(
    r"vllm|vllm\.entrypoints\.(?:\w+\.)*\w*api_server|sglang|sglang\.launch_server|trtllm-serve|tensorrt_llm\.commands\.serve|tritonserver"
)
"""Those programs of engines that answer requests; the others are their workers and routers."""
_LAUNCHERS: Final = (
    ("torchrun", re.compile(r"torchrun|torch\.distributed\.(?:run|launch)")),
    ("deepspeed", re.compile(r"deepspeed(?:\.launcher\.\w+)?")),
    ("accelerate", re.compile(r"accelerate|accelerate-launch|accelerate\.commands\.(?:launch|accelerate_cli)")),
    ("megatron", re.compile(r"pretrain_(?:gpt|bert|t5|llama|mamba|ict|vlm|retro|vision_\w+)\.py")),
)
_STARTS: Final = {"vllm": ("serve",), "sglang": ("serve",), "accelerate": ("launch",)}
"""Commands that do other things too: without one of these words behind the name they start nothing."""


class Started(NamedTuple):
    """A program by its name (an interpreter's script or module), and the words behind it."""

    name: str
    words: Sequence[str]

    @property
    def engine(self) -> str | None:
        """The kind of serving engine that it is a part of."""
        return self._kind(_ENGINES)

    @property
    def launcher(self) -> str | None:
        """The launcher that it is."""
        return self._kind(_LAUNCHERS)

    @property
    def is_server(self) -> bool:
        """True for the part of an engine that answers requests."""
        return self.engine is not None and _SERVERS.fullmatch(self.name) is not None

    def _kind(self, kinds: tuple[tuple[str, re.Pattern[str]], ...]) -> str | None:
        if self.name in _STARTS and (not self.words or self.words[0] not in _STARTS[self.name]):
            return None
        return next((kind for kind, pattern in kinds if pattern.fullmatch(self.name)), None)


class Flag(NamedTuple):
    """`--port 1` or `--port=1`, with `-` for each `_`; one that stands alone has the word behind it as its value, or ""."""

    name: str
    value: str
    is_joined: bool


def started(words: Sequence[str]) -> Started | None:
    """What a command line starts; None where that cannot be told."""
    if not words or not words[0]:
        return None
    first = os.path.basename(words[0].split(" ", 1)[0])
    if not interpreters.INTERPRETER.fullmatch(first):
        return Started(first, words[1:])
    found = interpreters.script(words)
    return None if found is None else Started(found[0], words[found[1] + 1 :])


def flags(words: Sequence[str]) -> Iterator[Flag]:
    """The flags among a program's words, up to a `--`."""
    for place, word in enumerate(words):
        if word == "--":
            return
        if word.startswith("-"):
            name, joined, value = word.lstrip("-").partition("=")
            after = words[place + 1] if place + 1 < len(words) else ""
            yield Flag(name.replace("_", "-"), value if joined else after, bool(joined))


def describe(words: Sequence[str], user: str) -> dict[str, str]:
    """Labels `engine`, `launcher` and `flag.NAME` of a command line; empty where it is of no known kind and has no known flag.

    Words and models are told of engines and launchers alone, numbers of any program. `user` is a word never told.
    """
    program = started(words[:MAX_WORDS])
    if program is None:
        return {}
    labels = {name: kind for name in ("engine", "launcher") if (kind := getattr(program, name)) is not None}
    known_program = bool(labels)
    if program.name == "vllm" and known_program and len(program.words) > 1 and not program.words[1].startswith("-"):
        model = plain_words.model(program.words[1], user)
        labels |= {"flag.model": model} if model is not None else {}
    return labels | _told(program.words, user, known_program)


def _told(words: Sequence[str], user: str, known_program: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for flag in flags(words):
        name = FLAG_NAMES.get(flag.name, flag.name)
        negated = name.startswith("no-") and FLAGS.get(name.removeprefix("no-")) == "boolean"
        kind = "boolean" if negated else FLAGS.get(name)
        if kind is None or (kind not in ("number", "boolean") and not known_program):
            continue
        told = plain_words.of_kind(kind, flag.value, user, is_switch=kind == "boolean" and not flag.is_joined)
        if told is not None:
            found[f"flag.{name.removeprefix('no-') if negated else name}"] = "false" if negated else told
    return found
