"""Which driver each CUDA needs, and which CUDA and GPUs the wheels of each PyTorch release are built for.

Rows that no page was found for are marked: `checked` is False, and what they say is told with that word. Where even that is missing there
is no row; nothing is guessed.
"""

from dataclasses import dataclass
from typing import Final

MINOR_VERSIONS: Final = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
RELEASE_NOTES: Final = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
TORCH_RELEASES: Final = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md"
TORCH_2_7: Final = "https://github.com/pytorch/pytorch/issues/147383"
TORCH_2_8: Final = "https://github.com/pytorch/pytorch/issues/160269"
TORCH_2_11: Final = "https://github.com/pytorch/pytorch/pull/175253"
TORCH_2_12: Final = "https://github.com/pytorch/pytorch/issues/178665"
SOURCES: Final = (MINOR_VERSIONS, RELEASE_NOTES, TORCH_RELEASES, TORCH_2_7, TORCH_2_8, TORCH_2_11, TORCH_2_12)


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One CUDA version: the driver (Linux x86_64) that came with its first release, with all its features."""

    cuda: str
    driver: str
    checked: bool = True


@dataclass(frozen=True, slots=True)
class TorchRelease:
    """One PyTorch release: the CUDA versions of its wheels, and that of plain `pip install torch` on Linux."""

    torch: str
    wheels: tuple[str, ...]
    default: str
    checked: bool = True
    default_checked: bool = False


@dataclass(frozen=True, slots=True)
class Architectures:
    """The compute capabilities that wheels of a CUDA version are built for, in PyTorch releases from `first` to `last`."""

    cuda: str
    first: str
    last: str
    capabilities: tuple[str, ...]
    checked: bool = True


LEAST_DRIVER: Final = {10: "440.33", 11: "450.80.02", 12: "525.60.13", 13: "580"}
"""By major version of CUDA: the driver with which its programs run, with fewer features than with the toolkit's own. The 10 is 10.2,
which knows no minor-version compatibility."""

OLDEST_CAPABILITY: Final = {11: (3, 5), 12: (5, 0), 13: (7, 5)}
"""By major version of CUDA: GPUs older than that are dropped."""

FIRST_CUDA: Final = {8: (11, 0), 9: (11, 8), 10: (12, 8), 12: (12, 8)}
"""By major compute capability: the first CUDA that builds for it."""

TOOLKITS: Final = (
    Toolkit("10.2", "440.33"),
    Toolkit("11.0", "450.51.05"),
    Toolkit("11.1", "455.23"),
    Toolkit("11.2", "460.27.03"),
    Toolkit("11.3", "465.19.01"),
    Toolkit("11.4", "470.42.01"),
    Toolkit("11.5", "495.29.05"),
    Toolkit("11.6", "510.39.01"),
    Toolkit("11.7", "515.43.04"),
    Toolkit("11.8", "520.61.05"),
    Toolkit("12.0", "525.60.13"),
    Toolkit("12.1", "530.30.02"),
    Toolkit("12.2", "535.54.03"),
    Toolkit("12.3", "545.23.06"),
    Toolkit("12.4", "550.54.14"),
    Toolkit("12.5", "555.42.02"),
    Toolkit("12.6", "560.28.03"),
    Toolkit("12.8", "570.26"),
    Toolkit("12.9", "575.51.03"),
    Toolkit("13.0", "580.65.06"),
    Toolkit("13.1", "590.44.01"),
    Toolkit("13.2", "595.45.04"),
    Toolkit("13.3", "610.43.02", checked=False),
)

TORCH: Final = (
    TorchRelease("1.10", ("10.2", "11.1", "11.3"), "10.2", checked=False),
    TorchRelease("1.12", ("10.2", "11.3", "11.6"), "10.2", checked=False),
    TorchRelease("1.13", ("11.6", "11.7"), "11.7"),
    TorchRelease("2.0", ("11.7", "11.8"), "11.7"),
    TorchRelease("2.1", ("11.8", "12.1"), "12.1"),
    TorchRelease("2.2", ("11.8", "12.1"), "12.1"),
    TorchRelease("2.3", ("11.8", "12.1"), "12.1"),
    TorchRelease("2.4", ("11.8", "12.1", "12.4"), "12.1"),
    TorchRelease("2.5", ("11.8", "12.1", "12.4"), "12.4"),
    TorchRelease("2.6", ("11.8", "12.4", "12.6"), "12.4"),
    TorchRelease("2.7", ("11.8", "12.6", "12.8"), "12.6", default_checked=True),
    TorchRelease("2.8", ("12.6", "12.8", "12.9"), "12.8", default_checked=True),
    TorchRelease("2.9", ("12.6", "12.8", "13.0"), "12.8"),
    TorchRelease("2.10", ("12.6", "12.8", "13.0"), "12.8"),
    TorchRelease("2.11", ("12.6", "12.8", "13.0"), "13.0", default_checked=True),
    TorchRelease("2.12", ("12.6", "13.0", "13.2"), "13.0", default_checked=True),
    TorchRelease("2.13", ("12.6", "13.0", "13.2"), "13.0"),
    TorchRelease("2.14", ("12.6", "13.0", "13.2"), "13.0"),
)

_OLD = ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0")
_NEW = ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0")

ARCHITECTURES: Final = (
    Architectures("12.6", "2.6", "2.7", _OLD, checked=False),
    Architectures("12.6", "2.8", "2.14", _OLD),
    Architectures("12.8", "2.7", "2.7", _NEW, checked=False),
    Architectures("12.8", "2.8", "2.10", ("7.0", *_NEW)),
    Architectures("12.8", "2.11", "2.11", _NEW),
    Architectures("12.9", "2.8", "2.8", ("7.0", *_NEW)),
    Architectures("13.0", "2.9", "2.14", _NEW),
    Architectures("13.2", "2.12", "2.14", _NEW),
)
