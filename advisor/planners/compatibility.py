"""Compatibility of a driver, a CUDA version, a PyTorch release and a GPU."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from advisor.planners.cuda_support import ARCHITECTURES, FIRST_CUDA, LEAST_DRIVER, OLDEST_CAPABILITY, SOURCES, TOOLKITS, TORCH
from advisor.planners.cuda_support import TorchRelease as Release
from advisor.planners.inputs import InputError
from advisor.planners.planner import Caution, Grid, Parameter, Planner, shown
from advisor.text import Text, _

CAPABILITIES: Final = tuple(sorted({one for built in ARCHITECTURES for one in built.capabilities}, key=float))
_DRIVER: Final = r"\d{3}(\.\d+){0,3}"
_CAPABILITY: Final = r"\d{1,2}\.\d"
Verdict: TypeAlias = Literal["pass", "warn", "fail"]
Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Compatibility:
    """`warn`: it runs, with fewer features. `offer` is what would run instead, empty where nothing is known or needed."""

    verdict: Literal["pass", "warn", "fail"] = shown(_("Verdict"), "words")
    cuda: str = shown(_("CUDA of the program"), "words")
    reasons: tuple[Text, ...] = shown(_("Why"), "sentences")
    offer: str = shown(_("What would run"), "words")


def compatibility(
    torch: str | None = None, cuda: str | None = None, driver: str | None = None, compute_capability: str | None = None
) -> Compatibility:
    """Whether a PyTorch release, or a program of a CUDA version, runs with a driver and on a GPU.

    `cuda` is `12.6` or `cu126`; without it that of plain `pip install torch`. What is not given is not judged.
    """
    release = _release(torch) if torch is not None else None
    if release is None and cuda is None:
        raise InputError(_("Compatibility needs torch or cuda: the release of PyTorch, or the CUDA version of the program."))
    wanted = _cuda(cuda) if cuda is not None else release.default if release else ""
    if release and wanted not in release.wheels:
        told = {"torch": release.torch, "index": index(wanted), "wheels": ", ".join(map(index, release.wheels))}
        raise InputError(_("torch {torch} has no {index}; it has {wheels}."), "cuda", **told)
    parsed = version(driver, "driver", _DRIVER) if driver is not None else None
    capability = version(compute_capability, "compute_capability", _CAPABILITY) if compute_capability is not None else None
    if parsed is None and capability is None:
        raise InputError(_("Compatibility needs driver or compute_capability, or a card that tells it: else nothing is judged."))
    verdict, reasons = _judged(release, wanted, parsed, capability)
    if parsed is None:
        reasons += (Text(_("The driver is not given, so it is not judged.")),)
    if capability is None:
        reasons += (Text(_("The GPU is not given, so it is not judged.")),)
    if release and not release.checked:
        reasons += (Text(_("The wheels of torch {torch} were not checked against a page."), {"torch": release.torch}),)
    if release and cuda is None and not release.default_checked:
        reasons += (Text(_("That pip gives CUDA {cuda} for torch {torch} was not checked: read torch.version.cuda."), {"cuda": wanted, "torch": release.torch}),)  # fmt: skip
    offer = _offer(release, parsed, capability) if release and verdict == "fail" else ""
    return Compatibility(verdict, wanted, reasons, offer)


def version(text: str, name: str, pattern: str = r"\d+(\.\d+)*") -> Version:
    """The numbers of a version; raises ValueError with a sentence for what is none."""
    if not re.fullmatch(pattern, text) or len(text) > 40:
        raise InputError(
            _("{name} must be a version such as {such}, not {value}."), name, such=_SUCH[name], value=f"{text[:60]!r}"
        )
    return tuple(map(int, text.split(".")))


_SUCH: Final = {"driver": "580.95.05", "torch": "2.14", "cuda": "12.6 or cu126", "compute_capability": "9.0"}


def index(cuda: str) -> str:
    """The name of PyTorch's wheel index for a CUDA version: cu126."""
    return "cu" + cuda.replace(".", "")


def _release(torch: str) -> Release:
    numbers = version(torch.removeprefix("v").partition("+")[0], "torch")
    name = ".".join(map(str, numbers[:2]))
    for release in TORCH:
        if release.torch == name:
            return release
    text = _("torch {torch} is not in the table, which has {first} to {last}; give cuda instead, as torch.version.cuda says.")
    raise InputError(text, "torch", torch=name, first=TORCH[0].torch, last=TORCH[-1].torch)


def _cuda(text: str) -> str:
    if found := re.fullmatch(r"cu(\d{2})(\d)", text):
        cuda = f"{found[1]}.{found[2]}"
        with_wheels = {wheel for release in TORCH for wheel in release.wheels}
        if cuda not in with_wheels:
            near = max(
                (one for one in with_wheels if _numbers(one) < _numbers(cuda)),
                key=_numbers,
                default=min(with_wheels, key=_numbers),
            )
            having = [release.torch for release in TORCH if near in release.wheels]
            raise InputError(
                _("There is no index {index}; the nearest is {near} (torch {first} to {last})."),
                "cuda",
                index=text,
                near=index(near),
                first=having[0],
                last=having[-1],
            )
        return cuda
    numbers = version(text, "cuda", r"\d{2}\.\d(\.\d+)?")
    if numbers[0] not in LEAST_DRIVER:
        raise InputError(_("cuda must be from 10.2 to 13, not {value}: of others nothing is recorded."), "cuda", value=text)
    return f"{numbers[0]}.{numbers[1]}"


def _numbers(text: str) -> Version:
    return tuple(map(int, text.split(".")))


def _judged(
    release: Release | None, cuda: str, driver: Version | None, capability: Version | None
) -> tuple[Verdict, tuple[Text, ...]]:
    verdicts: list[Verdict] = ["pass"]
    reasons: list[Text] = []
    for verdict, reason in (*_of_driver(cuda, driver), *_of_gpu(release, cuda, capability)):
        verdicts.append(verdict)
        reasons.append(reason)
    return max(verdicts, key=("pass", "warn", "fail").index), tuple(reasons)


def _of_driver(cuda: str, driver: Version | None) -> list[tuple[Verdict, Text]]:
    if driver is None:
        return []
    written = ".".join(f"{number:02d}" if place == 2 else str(number) for place, number in enumerate(driver))
    least = LEAST_DRIVER[_numbers(cuda)[0]]
    told = {"driver": written, "cuda": cuda, "least": least}
    own = next((toolkit for toolkit in TOOLKITS if toolkit.cuda == cuda), None)
    unchecked: list[tuple[Verdict, Text]] = []
    if own is not None:
        told["own"] = own.driver
        if not own.checked:
            unchecked = [("pass", Text(_("That {own} came with CUDA {cuda} was not checked against a page."), told))]
        if driver >= _numbers(own.driver):
            return [("pass", Text(_("Driver {driver} is at least {own}, which came with CUDA {cuda}."), told)), *unchecked]
    if driver < _numbers(least):
        return [("fail", Text(_("Driver {driver} is below {least}, the least for CUDA {cuda}."), told))]
    if own is None:
        return [
            ("pass", Text(_("Driver {driver} is at least {least}; the driver that came with CUDA {cuda} is not recorded."), told))
        ]
    text = _("Driver {driver} runs CUDA {cuda} with fewer features: at least {least}, but below {own}, which came with it.")
    return [("warn", Text(text, told)), *unchecked]


def _of_gpu(release: Release | None, cuda: str, capability: Version | None) -> list[tuple[Verdict, Text]]:
    if capability is None:
        return []
    told = {"cuda": cuda, "gpu": ".".join(map(str, capability)), "torch": release.torch if release else ""}
    if capability < OLDEST_CAPABILITY.get(_numbers(cuda)[0], (0, 0)) or _numbers(cuda) < FIRST_CUDA.get(capability[0], (0, 0)):
        return [("fail", Text(_("CUDA {cuda} does not know GPUs of compute capability {gpu}."), told))]
    if release is None:
        return [("pass", Text(_("CUDA {cuda} knows GPUs of compute capability {gpu}; whether the program was built for them is not judged."), told))]  # fmt: skip
    built = next(
        (
            one
            for one in ARCHITECTURES
            if one.cuda == cuda and _numbers(one.first) <= _numbers(release.torch) <= _numbers(one.last)
        ),
        None,
    )
    if built is None:
        text = _("What torch {torch} for CUDA {cuda} was built for is not recorded: ask torch.cuda.get_arch_list().")
        return [("pass", Text(text, told))]
    said = {**told, "built": ", ".join(built.capabilities)}
    runs = [one for one in built.capabilities if _numbers(one)[0] == capability[0] and _numbers(one) <= capability]
    reason = (
        Text(
            _("torch {torch} for CUDA {cuda} is built for {built}; that for {one} runs on compute capability {gpu}."),
            {**said, "one": runs[-1]},
        )
        if runs
        else Text(_("torch {torch} for CUDA {cuda} is built for {built}; none runs on compute capability {gpu}."), said)
    )
    unchecked = Text(_("That list was not checked against a page: ask torch.cuda.get_arch_list()."))
    verdict: Verdict = "pass" if runs else "fail"
    return [(verdict, reason)] + ([] if built.checked else [("pass", unchecked)])


def _offer(release: Release, driver: Version | None, capability: Version | None) -> str:
    """The newest wheel of that release that runs, else the first newer release with one, else the last older one."""
    at = TORCH.index(release)
    for one in (release, *TORCH[at + 1 :], *reversed(TORCH[:at])):
        for cuda in reversed(one.wheels):
            if _judged(one, cuda, driver, capability)[0] != "fail":
                return f"torch {one.torch}+{index(cuda)}"
    return ""


def _grid(taken: Mapping[str, Any]) -> Grid:
    """Of every release and wheel, the newest first, whether it runs with the driver and on the GPU."""
    driver = version(taken["driver"], "driver", _DRIVER) if taken["driver"] else None
    gpu = version(taken["compute_capability"], "compute_capability", _CAPABILITY) if taken["compute_capability"] else None
    columns = sorted({wheel for release in TORCH for wheel in release.wheels}, key=_numbers, reverse=True)
    rows = tuple(
        (
            release.torch,
            tuple(_judged(release, cuda, driver, gpu)[0] if cuda in release.wheels else "" for cuda in columns),
        )
        for release in reversed(TORCH)
    )
    release = _release(taken["torch"]) if taken["torch"] else None
    cuda = _cuda(taken["cuda"]) if taken["cuda"] else release.default if release else ""
    title = _("Which wheels of PyTorch run")
    return Grid(title, "torch", tuple(map(index, columns)), rows, (release.torch if release else "", index(cuda)))


PLANNER: Final = Planner(
    name="compatibility",
    title=_("Driver, CUDA and PyTorch compatibility"),
    about=_("Whether a PyTorch release runs with a driver and on a GPU, and what would"),
    formula=(
        _("driver >= least driver of CUDA's major version: runs; driver >= the driver that came with it: all features"),
        _("GPU: a binary of the same major compute capability and no newer minor one"),
    ),
    assumptions=(
        _("Linux on x86_64, official wheels, no cuda-compat package. A newer driver runs older CUDA."),
        _("The CUDA version that nvidia-smi prints is the most that the driver knows, not what is installed."),
        _("Intermediate code (PTX) that a wheel may carry is not counted."),
        _("What the tables mark as not checked is told with the verdict."),
    ),
    sources=SOURCES,
    parameters=(
        Parameter("torch", "words", _("The release of PyTorch: 2.14"), optional=True, suggested=tuple(one.torch for one in reversed(TORCH))),
        Parameter("cuda", "words", _("The CUDA version: 12.6 or cu126; without it that of plain pip install torch"), optional=True, suggested=tuple(one.cuda for one in reversed(TOOLKITS))),
        Parameter("driver", "words", _("The version of the NVIDIA driver"), optional=True, suggested=tuple(one.driver for one in reversed(TOOLKITS))),
        Parameter("compute_capability", "words", _("The GPU's compute capability"), optional=True, suggested=CAPABILITIES, of_card="compute_capability"),
    ),
    call=compatibility,
    result=Compatibility,
    example={"torch": "2.14", "driver": "535.104.05", "card": "V100 SXM2 32GB"},
    answers=("verdict", "cuda", "offer"),
    cautions=(
        Caution("verdict", lambda verdict: verdict == "fail", _("That does not run.")),
    ),
    grid=_grid,
)  # fmt: skip
