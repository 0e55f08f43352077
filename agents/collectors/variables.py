"""Values of the environment's variables, as far as they may be told: those of `wire/variables.py` whose value is of its kind.

Each kind is a shape that no address, path, name of a person or secret fits into.
"""

import re
from typing import Final

from agents.collectors.plain_words import names
from wire.labels import MAX_LABEL
from wire.variables import ENV, ENV_WORDS, SET, EnvKind, is_variable

_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_NUMBER: Final = r"[-+]?[0-9]{1,10}(?:\.[0-9]{1,6})?"
_SIZE: Final = r"[0-9]{1,12}(?:[kKmMgG][iI]?)?[bB]?"
_BOOLEAN: Final = r"(?i:[0-9]|true|false|yes|no|y|n|on|off)"
_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DEVICE: Final = rf"-?[0-9]{{1,4}}|GPU-[0-9a-fA-F]{{1,8}}|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]{{1,3}}/[0-9]{{1,3}}"
_NUMBERED: Final = (
    "eth|ib|bond|docker|br|team|veth|hsn|net|rdma|tun|tap|wg|virbr|cni|wlan|usb|mlx4|mlx5|bnxt_re|irdma|efa|rdmap|hfi1|rxe|siw"
)
_INTERFACE: Final = (
    rf"lo|en|wl|roce|(?:{_NUMBERED})(?:_?[0-9]{{1,4}})?(?:\.[0-9]{{1,4}})?|mlx[45]_|mlx5_bond_[0-9]{{1,3}}"
    # systemd's names: by slot, by place on the bus, by the board's own number
    r"|(?:en|ib|wl|roce|rdma)(?:P[0-9]{1,5})?(?:o[0-9]{1,5}|(?:p[0-9]{1,3})?s[0-9]{1,5})(?:f[0-9]{1,3})?(?:(?:np|n|d|v)[0-9]{1,3}){0,2}"
)
_PLACE: Final = r"!?\{[0-9]{1,5}(?:(?::-?[0-9]{1,5}){0,2}|(?:,[0-9]{1,5}){0,63})\}(?::-?[0-9]{1,5}){0,2}"
_OPTION: Final = (
    "max_split_size_mb|max_non_split_rounding_mb|roundup_power2_divisions|roundup_bypass_threshold_mb|garbage_collection_threshold"
    "|expandable_segments|backend|release_lock_on_(?:cuda|hip)malloc|pinned_use_(?:cuda|hip)_host_register|pinned_num_register_threads"
    "|pinned_use_background_threads|pinned_reserve_segment_size_mb|graph_capture_record_stream_reuse|per_process_memory_fraction"
)
_STEP: Final = r"(?:[0-9]{1,6}|>):[0-9]{1,6}"
_CHOICE: Final = rf"[0-9]{{1,9}}(?:\.[0-9]{{1,6}})?|(?i:true|false)|native|cudaMallocAsync|\[{_STEP}(?:,{_STEP}){{0,15}}\]"
_CAPABILITY: Final = (
    r"[0-9]{1,2}\.[0-9][af]?(?:\+PTX)?|(?:Kepler|Maxwell|Pascal|Volta|Turing|Ampere|Ada|Hopper|Blackwell)(?:\+PTX)?|All"
)
_DOMAIN: Final = r"MKL_DOMAIN_(?:ALL|BLAS|FFT|VML|PARDISO)[=:][0-9]{1,5}"


def _several(one: str, between: str = ", ?") -> str:
    return rf"(?:{one})(?:{between}(?:{one}))*"


_SHAPES: Final[dict[EnvKind, re.Pattern[str]]] = {
    "number": re.compile(_NUMBER),
    "numbers": re.compile(_several("[0-9]{1,6}")),
    "boolean": re.compile(_BOOLEAN),
    "size": re.compile(_SIZE),
    "devices": re.compile(rf"{_several(_DEVICE)}|all|none|void|NoDevFiles"),
    "interfaces": re.compile(rf"\^?=?{_several(f'(?:{_INTERFACE})(?::[0-9]{{1,3}})?')}"),
    "places": re.compile(rf"(?i:threads|cores|sockets|ll_caches|numa_domains)(?:\([0-9]{{1,5}}\))?|{_several(_PLACE)}"),
    "allocator": re.compile(_several(rf"(?:{_OPTION}):(?:{_CHOICE})")),
    "limits": re.compile(_several(rf"[0-9]{{1,4}}={_SIZE}")),
    "architectures": re.compile(_several(_CAPABILITY, "[;, ]")),
    "domains": re.compile(_several(_DOMAIN, "[;, ] ?")),
}
_BETWEEN_WORDS: Final = re.compile("[,;:]")
_SMALL: Final = re.compile("[0-9]{1,4}")


def told(name: str, value: str, user: str) -> str | None:
    """The value, or that there is one, as it may be told; None for a variable that is not told of. `user` is never told.

    An empty value is told of variables that are known.
    """
    if not is_variable(name) or _NAME.fullmatch(name) is None or names(name, user):
        return None
    if len(value) > MAX_LABEL:
        return SET
    if name in ENV_WORDS:
        return value if _is_of(ENV_WORDS[name], value) else SET
    if name in ENV:
        return value if not value or _SHAPES[ENV[name]].fullmatch(value) else SET
    return SET


def _is_of(words: tuple[str, ...], value: str) -> bool:
    """True for a list of these words and at most one small number, each with at most one sign that NCCL or PyTorch gives a meaning."""
    known = {word.lower() for word in words}
    parts = [part[1:] if part[:1] in ("^", "+", "-") else part for part in _BETWEEN_WORDS.split(value.lower())]
    others = [part for part in parts if part not in known]
    return not value or not others or (len(others) == 1 and _SMALL.fullmatch(others[0]) is not None)
