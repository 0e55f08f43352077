"""Which script or module an interpreter runs, from its command line; no other word of it is ever taken for one.

A flag that is not known here may take the word behind it, and a program may come by the standard input: then nothing is a
script's name, for what follows are its arguments.
"""

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

INTERPRETER: Final = re.compile(r"(?:python|pypy|pt_main_thread|bash|sh|dash|perl|ruby|node|julia|java|Rscript)[\d.]*w?")
_SAFE: Final = re.compile(r"[\w.+-]{1,64}")
_NEVER: Final = re.compile(r"(?!)")


class _Flags(NamedTuple):
    """Patterns of an interpreter's flags: `alone` has no value or one of its own, the word behind `with_value` is its value,
    that behind `module` (or what stands in its group) is what is run. Any other flag: nobody knows what follows."""

    alone: re.Pattern[str]
    with_value: re.Pattern[str] = _NEVER
    module: re.Pattern[str] = _NEVER


_OF_PYTHON: Final = "[bBdEhiIOPqRsStuvVx]"
_PYTHON: Final = _Flags(
    re.compile(rf"-{_OF_PYTHON}+|-{_OF_PYTHON}*[WX].+|--check-hash-based-pycs=.*"),
    re.compile(rf"-{_OF_PYTHON}*[WX]|--check-hash-based-pycs"),
    re.compile(rf"-{_OF_PYTHON}*m(.*)"),
)
_OF_SHELL: Final = "[abefhiklmnprtuvxBCDEHPT]"
_SHELL: Final = _Flags(
    re.compile(rf"[-+]{_OF_SHELL}+|--(?:norc|noprofile|posix|login|restricted|verbose|debugger|noediting)"),
    re.compile(rf"[-+]{_OF_SHELL}*[oO]|--(?:rcfile|init-file)"),
)
_JAVA: Final = _Flags(
    re.compile(r"-(?:X|D|ea|da|server|client|agent|javaagent:).*|-jar|--[\w-]+=.*"), re.compile(r"-cp|-classpath|--class-path")
)
_JULIA: Final = _Flags(re.compile(r"-[tpJOgLH].+|--[\w-]+=.*"), re.compile(r"-[tpJLH]"))
_OTHER: Final = _Flags(re.compile(r"-w|--[\w-]+=.*"))
_FAMILIES: Final = (
    (re.compile(r"(?:python|pypy|pt_main_thread)[\d.]*w?"), _PYTHON),
    (re.compile(r"-?(?:bash|sh|dash)"), _SHELL),
    (re.compile("java"), _JAVA),
    (re.compile(r"julia[\d.]*"), _JULIA),
)


def script(words: Sequence[str]) -> tuple[str, int] | None:
    """The name of the file or module, and where in `words` it stands; None where there is none, or none that can be told."""
    if not words:
        return None
    first = os.path.basename(words[0])
    flags = next((flags for pattern, flags in _FAMILIES if pattern.fullmatch(first)), _OTHER)
    place, may_be_flag = 1, True
    while place < len(words):
        word = words[place]
        if not may_be_flag or not word.startswith(("-", "+")):
            return _named(os.path.basename(word), place)
        if (module := flags.module.fullmatch(word)) is not None:
            if module[1]:
                return _named(module[1], place)
            return _named(words[place + 1], place + 1) if place + 1 < len(words) else None
        if word == "--":
            may_be_flag = False
        elif flags.with_value.fullmatch(word):
            place += 1
        elif not flags.alone.fullmatch(word):
            return None
        place += 1
    return None


def _named(name: str, place: int) -> tuple[str, int] | None:
    return (name, place) if _SAFE.fullmatch(name) else None
