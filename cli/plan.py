"""`fettle plan NAME`: what a model, a job or a node needs, computed from what is typed; no GPU and no server."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.unknown import refuse

if TYPE_CHECKING:
    from advisor.planners.answer import Answer
    from advisor.planners.planner import Parameter, Planner, Shown

HELP = "Plan memory, speed, checkpoints, energy and versions by formulas."

_INDENT = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments: a planner's own flags are declared when it is named."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{HELP}\n\n" + "\n".join(_listed())
    parser.epilog = "`fettle plan NAME --help` tells a planner's formula, assumptions and sources, with an example."
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of the planners above; without one they are listed")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="--option VALUE", help="what the planner takes")


def call(options: argparse.Namespace) -> int:
    """Print the plan; 2 where there is no such planner or its input cannot be."""
    import json

    from advisor.planners.answer import answer
    from advisor.planners.planner import load
    from wire.terminal import printable

    if options.name is None:
        return _print(_listed())
    known = {planner.name: planner for planner in load()}
    planner = known.get(options.name)
    if planner is None:
        close = difflib.get_close_matches(options.name, list(known), 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
        print(printable(f"fettle plan: there is no planner {options.name}; {hint}"), file=sys.stderr)
        return 2
    parser = flags(planner)
    typed, unknown = parser.parse_known_args(options.words)
    if unknown:
        refuse(parser, unknown)
    try:
        values = {one.name: one.read(text) for one in planner.accepted if (text := getattr(typed, one.name)) is not None}
        said = answer(planner, values)
    except ValueError as error:
        print(printable(f"fettle plan {planner.name}: {_as_flags(planner, str(error))}"), file=sys.stderr)
        return 2
    if typed.json:
        told = {line.name: line.plain for line in said.lines}
        plan = {"planner": planner.name, "input": {**values, **said.taken}, "result": told, "cautions": said.cautions}
        out = [json.dumps(plan, ensure_ascii=False, allow_nan=False)]
    else:
        out = printed(said)
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
    parser = argparse.ArgumentParser(
        prog=f"fettle plan {planner.name}",
        description=about(planner),
        epilog=_example(planner),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for one in planner.accepted:
        parser.add_argument(one.option, dest=one.name, metavar=_metavar(one), help=_help(one).replace("%", "%%"))
    parser.add_argument("--json", action="store_true", help="print one JSON object: plain numbers, units in the names")
    return parser


def about(planner: "Planner") -> str:
    """Title, formula, assumptions and sources, as help has them."""
    parts = [f"{planner.title}: {_lower(planner.about)}.", "", "Formula:", *(f"  {line}" for line in planner.formula)]
    parts += ["", "Assumptions:", *(f"  {line}" for line in planner.assumptions)]
    if planner.sources:
        parts += ["", "Sources:", *(f"  {line}" for line in planner.sources)]
    return "\n".join(parts)


def printed(said: "Answer") -> list[str]:
    """The answer as text: the result, what to be careful of, and what the card told."""
    cautions = ["", *(f"Careful: {text[:1].lower()}{text[1:]}" for text in said.cautions)] if said.cautions else []
    return lines(said.lines) + cautions + by_card(said)


def lines(result: "Sequence[Shown]") -> list[str]:
    """The result as text: a line each, numbers in the unit that suits them; what was not asked is left out."""
    from advisor.planners.units import written

    told = [line for line in result if line.value is not None and line.value != ""]
    width = max(len(line.label) for line in told) + _INDENT
    out = []
    for line in told:
        if isinstance(line.value, tuple):
            out += [f"{line.label if not number else '':<{width}}{text.english()}" for number, text in enumerate(line.value)]
        elif isinstance(line.value, str):
            out.append(f"{line.label:<{width}}{line.value}")
        elif line.value is not None:
            out.append(f"{line.label:<{width}}{written(line.value, line.unit)}")
    return out


def by_card(said: "Answer") -> list[str]:
    """What the card told, so that a reader sees which peak a plan rests on."""
    from advisor.planners.units import written

    if said.card is None:
        return []
    told = [f"{one.option} {value if isinstance(value, str) else written(value, one.unit)}" for one, value in said.told]
    return [
        "",
        f"By the card table, {said.card.name}: {', '.join(told) or 'nothing'}.",
        *([said.card.note] if said.card.note else []),
    ]


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
    return printed(answer(planner, values))


def _example(planner: "Planner") -> str:
    return "\n".join(["Example:", f"  $ {command(planner)}", *(f"  {line}" for line in worked(planner))])


def _listed() -> Sequence[str]:
    from advisor.planners.planner import load

    width = max(len(planner.name) for planner in load()) + _INDENT
    return [f"{planner.name:<{width}}{planner.about}." for planner in load()]


def _help(one: "Parameter") -> str:
    from advisor.planners.units import written

    text = one.about
    if one.choices:
        text += f": {', '.join(one.choices)}"
    if isinstance(one.default, str):
        text += f" ({one.default})"
    elif one.default is not None:
        text += f" ({written(one.default, one.unit)})"
    elif one.of_card:
        text += " (of the card)"
    elif not one.optional:
        text += " (must be given)"
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


def _as_flags(planner: "Planner", sentence: str) -> str:
    """`sentence` with the names of parameters as they are typed here; a name that is a plain word, where it stands for the parameter."""
    import re

    known = {one.name: one.option for one in planner.accepted}
    names = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    plain = re.sub(rf"(^|needs |give )({names})\b", lambda found: found[1] + known[found[2]], sentence)
    with_unit = "|".join(sorted((re.escape(name) for name in known if "_" in name), key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({with_unit})\b", lambda found: known[found[1]], plain) if with_unit else plain


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
