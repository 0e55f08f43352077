"""What is told of a process in words, sorted for its row on the node's page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext

from fleet.dashboard import words
from fleet.inventory.models import STILL_THERE, Node

_ORDER: Final = {name: place for place, name in enumerate(("engine", "launcher", "torch", "cuda", "pid_in_namespace"))}
_CONTAINER: Final = 12
"""Characters of a container's id that tools show; the whole is the title."""


@dataclass(frozen=True, slots=True)
class Word:
    """One label: what it is, its value in short, and the whole of it where that is longer."""

    label: str
    value: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Described:
    """A process in words: what it belongs to and runs, and its flags, variables and what it says of its run as they were written."""

    words: tuple[Word, ...] = ()
    settings: tuple[str, ...] = field(default=())


def of_node(node: Node, indices: Mapping[str, int]) -> dict[int, Described]:
    """What is known of the node's processes that are there now, by pid; `indices` are those of its GPUs by UUID."""
    there = node.processes.filter(last_seen_at__gte=timezone.now() - STILL_THERE).order_by("last_seen_at")
    return {pid: described(labels, indices) for pid, labels in there.values_list("pid", "labels")}  # of one pid the newest


def described(labels: Mapping[str, str], indices: Mapping[str, int] | None = None) -> Described:
    """The labels in the reader's words; one that nobody named keeps its key, so that nothing new is hidden."""
    told: list[Word] = []
    known = dict(labels)
    if job := known.pop("slurm_job", ""):
        step = known.pop("slurm_step", "")
        told.append(Word(str(words.LABEL["slurm_job"]), f"{job}.{step}" if step else job))
    uid = known.pop("pod", "")
    if name := known.pop("pod_name", ""):
        told.append(Word(str(words.LABEL["pod"]), name, uid))
    elif uid:
        told.append(Word(str(words.LABEL["pod"]), uid))
    if container := known.pop("container", ""):
        told.append(Word(str(words.LABEL["container"]), container[:_CONTAINER], container))
    if may_use := known.pop("visible_gpus", ""):
        told.append(Word(str(words.LABEL["visible_gpus"]), _gpus(may_use, indices or {}), may_use))
    settings = []
    for key, value in sorted(known.items(), key=lambda item: (_ORDER.get(item[0], len(_ORDER)), item[0])):
        scope, _, name = key.partition(".")
        if scope == "flag" and name:
            settings.append(f"--{name} {value}".rstrip())
        elif scope == "env" and name:
            settings.append(f"{name}={value}")
        elif scope == "told" and name:
            settings.append(f"{name}: {value}")
        elif value:
            shown = words.word(words.ENGINE_KIND, value) if key == "engine" else value
            told.append(Word(words.word(words.LABEL, key), shown))
    return Described(tuple(told), tuple(settings))


def _gpus(may_use: str, indices: Mapping[str, int]) -> str:
    """The label `visible_gpus` in the reader's words: the GPUs' indices on this node, in CUDA's order."""
    if may_use in ("all", "none"):
        return gettext("all GPUs") if may_use == "all" else gettext("no GPU")
    shown = []
    for one in may_use.split(","):
        if one.startswith("?"):
            shown.append(gettext("number %(number)s as CUDA counts") % {"number": one[1:]})
            continue
        meant = [index for uuid, index in indices.items() if uuid.startswith(one)]
        shown.append(f"GPU {meant[0]}" if len(meant) == 1 else one)
    return ", ".join(shown)
