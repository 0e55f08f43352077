"""`fettle plan NAME`: what a model, a job or a node needs, computed from what is typed; no GPU and no server."""

import argparse
import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop, left, sentence, width, word
from cli.parser import RawHelp
from cli.parser import parser as speaking
from cli.unknown import refuse

if TYPE_CHECKING:
    from advisor.planners.answer import Answer
    from advisor.planners.planner import Parameter, Planner, Shown
    from advisor.planners.units import Unit
    from advisor.text import Text

HELP = gettext_noop("Plan memory, speed, checkpoints, energy and versions by formulas.")

_INDENT = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments: a planner's own flags are declared when it is named."""
    parser.formatter_class = RawHelp
    parser.description = f"{_(HELP)}\n\n" + "\n".join(_listed())
    parser.epilog = _("`fettle plan NAME --help` tells a planner's formula, assumptions and sources, with an example.")
    parser.add_argument("name", nargs="?", metavar="NAME", help=_("one of the planners above; without one they are listed"))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="--option VALUE", help=_("what the planner takes"))


def call(options: argparse.Namespace) -> int:
    """Print the plan; 2 where there is no such planner or its input cannot be."""
    import json

    from advisor.planners.answer import answer
    from advisor.planners.inputs import InputError
    from advisor.planners.planner import load
    from wire.terminal import printable

    if options.name is None:
        return _print(_listed())
    known = {planner.name: planner for planner in load()}
    planner = known.get(options.name)
    if planner is None:
        close = difflib.get_close_matches(options.name, list(known), 1)
        says = (
            _("There is no planner {name}; did you mean {close}?").format(name=options.name, close=close[0])
            if close
            else _("There is no planner {name}; there are {known}.").format(name=options.name, known=", ".join(known))
        )
        print(printable(f"fettle plan: {_lower(says)}"), file=sys.stderr)
        return 2
    parser = flags(planner)
    typed, unknown = parser.parse_known_args(options.words)
    if unknown:
        refuse(parser, unknown)
    try:
        values = {one.name: one.read(text) for one in planner.accepted if (text := getattr(typed, one.name)) is not None}
        said = answer(planner, values)
    except InputError as error:
        print(printable(f"fettle plan {planner.name}: {_with_flags(planner, error.text)}"), file=sys.stderr)
        return 2
    if typed.json:
        told = {line.name: line.plain for line in said.lines}
        plan = {"planner": planner.name, "input": {**values, **said.taken}, "result": told}
        plan["cautions"] = [text.english() for text in said.cautions]
        out = [json.dumps(plan, ensure_ascii=False, allow_nan=False)]
    else:
        out = printed(planner, said)
    return _print(out)


def _print(out: Sequence[str]) -> int:
    import os

    from wire.terminal import printable

    try:
        print("\n".join(map(printable, out)), flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def flags(planner: "Planner") -> argparse.ArgumentParser:
    """The parser of one planner's flags; its help holds all that there is to know of the planner."""
    parser = speaking(
        f"fettle plan {planner.name}",
        about(planner),
        epilog=_example(planner),
        formatter_class=RawHelp,
        allow_abbrev=False,
    )
    for one in planner.accepted:
        parser.add_argument(one.option, dest=one.name, metavar=_metavar(one), help=_help(one).replace("%", "%%"))
    parser.add_argument("--json", action="store_true", help=_("print one JSON object: plain numbers, units in the names"))
    return parser


def about(planner: "Planner") -> str:
    """Title, formula, assumptions and sources, as help has them."""
    parts = [_("{title}: {about}.").format(title=_(planner.title), about=_lower(_(planner.about)))]
    parts += ["", _("Formula:"), *(f"  {_(line)}" for line in planner.formula)]
    parts += ["", _("Assumptions:"), *(f"  {_(line)}" for line in planner.assumptions)]
    if planner.sources:
        parts += ["", _("Sources:"), *(f"  {line}" for line in planner.sources)]
    return "\n".join(parts)


def printed(planner: "Planner", said: "Answer") -> list[str]:
    """The answer as text: the result, what to be careful of, and what the card told."""
    careful = [_("Careful: {text}").format(text=_lower(_with_flags(planner, text))) for text in said.cautions]
    return lines(planner, said.lines) + (["", *careful] if careful else []) + by_card(said)


def lines(planner: "Planner", result: "Sequence[Shown]") -> list[str]:
    """The result as text: a line each, numbers in the unit that suits them; what was not asked is left out."""
    told = [line for line in result if line.value not in (None, "", ())]
    columns = max(width(_(line.label)) for line in told) + _INDENT
    out = []
    for line in told:
        label = _(line.label)
        if isinstance(line.value, tuple):
            texts = [_with_flags(planner, text) for text in line.value]
            out += [left(label if not number else "", columns) + text for number, text in enumerate(texts)]
        elif line.value is not None:
            out.append(left(label, columns) + _value(line.value, line.unit))
    return out


def by_card(said: "Answer") -> list[str]:
    """What the card told, so that a reader sees which peak a plan rests on."""
    if said.card is None:
        return []
    told = ", ".join(f"{one.option} {_value(value, one.unit)}" for one, value in said.told)
    says = _("By the card table, {card}: {figures}.").format(card=said.card.name, figures=told or _("nothing"))
    return ["", says, *([_(said.card.note)] if said.card.note else [])]


def _value(value: float | str | bool, unit: "Unit") -> str:
    """A value with its unit, in the reader's words where it has some; a word as it is typed."""
    from advisor.planners.units import written

    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return word("planner", "yes" if value else "no")
    if unit == "gpu_hours":
        return _("{count} GPU-hours").format(count=written(value, "count"))
    return written(value, unit)


def command(planner: "Planner") -> str:
    """The worked example as it is typed."""
    import shlex

    known = {one.name: one for one in planner.accepted}
    typed = " ".join(f"{known[name].option} {shlex.quote(text)}" for name, text in planner.example.items())
    return f"fettle plan {planner.name} {typed}"


def worked(planner: "Planner") -> list[str]:
    """What the worked example prints."""
    from advisor.planners.answer import answer

    known = {one.name: one for one in planner.accepted}
    values = {name: known[name].read(text) for name, text in planner.example.items()}
    return printed(planner, answer(planner, values))


def _example(planner: "Planner") -> str:
    return "\n".join([_("Example:"), f"  $ {command(planner)}", *(f"  {line}" for line in worked(planner))])


def _listed() -> Sequence[str]:
    from advisor.planners.planner import load

    columns = max(len(planner.name) for planner in load()) + _INDENT
    return [left(planner.name, columns) + _("{about}.").format(about=_(planner.about)) for planner in load()]


def _help(one: "Parameter") -> str:
    text = _(one.about)
    if one.choices:
        text += f": {', '.join(one.choices)}"
    if one.default is not None:
        text += f" ({_value(one.default, one.unit)})"
    elif one.of_card:
        text += " " + _("(of the card)")
    elif not one.optional:
        text += " " + _("(must be given)")
    return text


_METAVARS = {
    "bytes": "SIZE",
    "bytes_per_second": "RATE",
    "seconds": "TIME",
    "flop_per_second": "RATE",
    "watts": "POWER",
    "hours": "TIME",
}


def _metavar(one: "Parameter") -> str:
    return {"words": "WORD", "flag": "yes|no"}.get(one.unit, _METAVARS.get(one.unit, "NUMBER"))


_ASKED = re.compile(r"\b(?:needs?|give) ([^.;:]*(?:\.\w[^.;:]*)*)")
"""What a sentence asks for: the names in it are parameters, which elsewhere are plain words."""


def _with_flags(planner: "Planner", text: "Text") -> str:
    """The sentence with the names of parameters as they are typed here."""
    from advisor.text import Text

    known = {one.name: one.option for one in planner.accepted}
    asked = " ".join(_ASKED.findall(text.id))
    plain = {name: option for name, option in known.items() if "_" in name or re.search(rf"(?<![\w.]){name}(?![\w.])", asked)}
    params = {name: _flags(value, known) if name in ("name", "others") else value for name, value in text.params.items()}
    return _flags(sentence(Text(text.id, params)), plain)


def _flags(value: object, known: "Mapping[str, str]") -> str:
    """`value` with each of the `known` names that stands in it by itself as its flag."""
    names = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    return (
        re.sub(rf"(?<![\w.-])(?<!\ba )({names})(?![\w-]|\.\w)", lambda found: known[found[1]], str(value), flags=re.ASCII)
        if names
        else str(value)
    )


def _lower(text: str) -> str:
    """The text as it goes on within a sentence; a name or a flag stays as it is."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
