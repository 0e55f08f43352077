"""What is said between the process that leads a run and those that measure: a line of JSON each."""

from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from agents.bench.cases import Case
from wire.bench import Score

MAX_LINE: Final = 100_000


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From the one that leads. `soak` lasts until the next order; `join` makes the ranks meet at a file."""

    do: Literal["measure", "soak", "join", "leave"]
    case: Case | None = None
    meeting: str = ""


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer: `ready` once torch is there, with versions; `score` and `missing` of a case; `done` of the other orders."""

    what: Literal["ready", "score", "missing", "done"]
    score: Score | None = None
    began: float = 0.0
    ended: float = 0.0
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)


encode = msgspec.json.encode
order = msgspec.json.Decoder(Order).decode
said = msgspec.json.Decoder(Said).decode
