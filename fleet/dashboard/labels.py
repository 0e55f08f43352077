"""What is told of a process in words, sorted for its row on the node's page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from django.utils import timezone

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
    """A process in words: what it belongs to and runs, and its flags and variables as they were written."""

    words: tuple[Word, ...] = ()
    settings: tuple[str, ...] = field(default=())


def of_node(node: Node) -> dict[int, Described]:
    """What is known of the node's processes that are there now, by pid."""
    there = node.processes.filter(last_seen_at__gte=timezone.now() - STILL_THERE).order_by("last_seen_at")
    return {pid: described(labels) for pid, labels in there.values_list("pid", "labels")}  # of one pid the newest


def described(labels: Mapping[str, str]) -> Described:
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
    settings = []
    for key, value in sorted(known.items(), key=lambda item: (_ORDER.get(item[0], len(_ORDER)), item[0])):
        scope, _, name = key.partition(".")
        if scope == "flag" and name:
            settings.append(f"--{name} {value}".rstrip())
        elif scope == "env" and name:
            settings.append(f"{name}={value}")
        elif value:
            shown = words.word(words.ENGINE_KIND, value) if key == "engine" else value
            told.append(Word(words.word(words.LABEL, key), shown))
    return Described(tuple(told), tuple(settings))
