"""One word for one thing in the Chinese, that which Chinese GPU engineers write."""

import re

import pytest

from tests.fleet.dashboard.test_translation import ENTRIES

PAIRS = [(entry.parts["msgid"], text) for entry in ENTRIES for text in entry.translations]
OF_LINUX = re.compile(
    r"\AKernel\Z|kernel module|CPU in the kernel|kernel command line|the kernel names|the kernel counts|the kernel reads ahead|the kernel's XID|[Tt]he kernel's log|"
    r"[Tt]he kernel does so|kernel log|kernel tells|kernel drops|Linux kernel",
    re.IGNORECASE,
)
"""Where “kernel” is that of the operating system: 内核. One that runs on a GPU stays `kernel`, as it is written in code and profilers."""
SAID_OTHERWISE = {
    "核函数": "kernel",
    "录像": "录制数据",
    "功率上限": "功耗上限",
    "功率封顶": "功耗封顶",
    "GPU 内存": "显存",
    "设备内存": "显存",
    "显卡内存": "显存",
    "忙时": "忙碌时",
    "张量核": "张量核心",
}


def test_a_kernel_on_a_gpu_stays_one_and_that_of_linux_is_translated() -> None:
    """Both ways: no GPU's kernel is 内核, and no text about kernels leaves the word out."""
    for english, chinese in PAIRS:
        if OF_LINUX.search(english):
            assert "内核" in chinese, english
        else:
            assert "内核" not in chinese, english
            if re.search(r"\bkernels?\b", english):
                assert "kernel" in chinese.lower() or "启动" in chinese, english


@pytest.mark.parametrize(("word", "instead"), SAID_OTHERWISE.items())
def test_a_thing_has_one_name(word: str, instead: str) -> None:
    """The other name of the same thing stands nowhere."""
    found = [chinese for _english, chinese in PAIRS if word in chinese.replace(instead, "")]

    assert found == [], instead
