"""Compatibility: the worked examples, and the tables behind them."""

import pytest

from advisor.planners.compatibility import compatibility
from advisor.planners.cuda_support import ARCHITECTURES, LEAST_DRIVER, TOOLKITS, TORCH


def why(**given: str) -> str:
    """All reasons as one text."""
    return " ".join(reason.english() for reason in compatibility(**given).reasons)


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare."""
    return tuple(map(int, version.split(".")))


def test_an_old_driver_under_the_newest_wheel() -> None:
    """CUDA 13 needs 580; the CUDA 12.6 wheel of the same release runs."""
    told = compatibility(torch="2.14", driver="535.104.05")

    assert (told.verdict, told.cuda, told.offer) == ("fail", "13.0", "torch 2.14+cu126")
    assert "Driver 535.104.05 is below 580, the least for CUDA 13.0." in why(torch="2.14", driver="535.104.05")


def test_a_new_driver_under_an_old_wheel() -> None:
    """Runs, as any newer driver does."""
    assert compatibility(torch="2.1", cuda="cu118", driver="580.95.05").verdict == "pass"


def test_a_driver_of_the_same_family() -> None:
    """Runs with fewer features."""
    told = compatibility(cuda="11.8", driver="470.82.01")

    assert (told.verdict, told.offer) == ("warn", "")
    assert "with fewer features: at least 450.80.02, but below 520.61.05" in why(cuda="11.8", driver="470.82.01")


def test_the_driver_that_came_with_a_toolkit_runs_it() -> None:
    """Also where later toolkits of the family ask for more, as after CUDA 11.0."""
    assert compatibility(cuda="11.0", driver="450.51.06").verdict == "pass"
    assert compatibility(cuda="11.1", driver="450.51.06").verdict == "fail"
    assert compatibility(cuda="11.1", driver="450.80.02").verdict == "warn"


def test_a_v100_under_the_newest_wheel() -> None:
    """CUDA 13 does not know it; the CUDA 12.6 wheel does."""
    told = compatibility(torch="2.14", compute_capability="7.0")

    assert (told.verdict, told.offer) == ("fail", "torch 2.14+cu126")


def test_a_b200_under_a_wheel_from_before_it() -> None:
    """No binary for 10.0; torch 2.7 with CUDA 12.8 is the first that has one."""
    told = compatibility(torch="2.6", cuda="cu126", compute_capability="10.0")

    assert (told.verdict, told.offer) == ("fail", "torch 2.7+cu128")


def test_an_index_that_never_was_names_the_nearest() -> None:
    """With the releases that have it."""
    with pytest.raises(ValueError, match=r"^There is no index cu122; the nearest is cu121 \(torch 2.1 to 2.5\)\.$"):
        compatibility(cuda="cu122")


@pytest.mark.parametrize(
    ("torch", "cuda", "capability", "verdict"),
    [
        ("2.10", "cu128", "7.0", "pass"),  # Volta was dropped from CUDA 12.8 with 2.11
        ("2.11", "cu128", "7.0", "fail"),
        ("2.14", "cu130", "8.9", "pass"),  # runs binaries for 8.6
        ("2.14", "cu130", "10.3", "pass"),
        ("2.14", "cu130", "12.1", "pass"),
        ("2.14", "cu130", "11.0", "fail"),
        ("2.5", "cu124", "9.0", "pass"),
        ("2.5", "cu124", "10.0", "fail"),
        ("2.14", "cu126", "12.0", "fail"),
    ],
)
def test_which_gpus_a_wheel_runs_on(torch: str, cuda: str, capability: str, verdict: str) -> None:
    """A binary runs on its own and newer minor versions of its major compute capability."""
    assert compatibility(torch=torch, cuda=cuda, compute_capability=capability).verdict == verdict


def test_what_was_not_checked_is_told() -> None:
    """Of defaults, toolkits, releases and architectures."""
    assert "was not checked: read torch.version.cuda" in why(torch="2.14", driver="580.95.05")
    assert "not checked" not in why(torch="2.11", driver="580.95.05", compute_capability="9.0")
    assert "That 610.43.02 came with CUDA 13.3 was not checked" in why(cuda="13.3", driver="610.50")
    assert "The wheels of torch 1.12 were not checked" in why(torch="1.12", driver="535.54.03")
    assert "That list was not checked" in why(torch="2.7", cuda="cu128", compute_capability="9.0")
    assert "ask torch.cuda.get_arch_list()" in why(torch="2.5", cuda="cu124", compute_capability="9.0")
    assert "the driver that came with CUDA 13.4 is not recorded" in why(cuda="13.4", driver="620.10")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs torch or cuda"),
        ({"torch": "2.14"}, "needs driver or compute_capability"),
        ({"torch": "2.14", "cuda": "cu118"}, "torch 2.14 has no cu118; it has cu126, cu130, cu132."),
        ({"torch": "2.99"}, "torch 2.99 is not in the table, which has 1.10 to 2.14; give cuda instead"),
        ({"torch": "two"}, "torch must be a version such as 2.14, not 'two'."),
        ({"cuda": "9.2"}, "cuda must be a version such as 12.6 or cu126, not '9.2'."),
        ({"cuda": "14.0"}, "cuda must be from 10.2 to 13, not 14.0"),
        ({"cuda": "12.6", "driver": "12"}, "driver must be a version such as 580.95.05, not '12'."),
        ({"cuda": "12.6", "compute_capability": "sm_90"}, "compute_capability must be a version such as 9.0, not 'sm_90'."),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], said: str) -> None:
    """With what there is."""
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        compatibility(**given)


def test_the_tables_agree_with_each_other() -> None:
    """Every wheel's toolkit is known, every default is a wheel, drivers rise with CUDA, and architectures belong to wheels."""
    toolkits = {toolkit.cuda: toolkit.driver for toolkit in TOOLKITS}
    drivers = [numbers(toolkit.driver) for toolkit in TOOLKITS]

    assert drivers == sorted(drivers)
    assert all(numbers(toolkit.driver) >= numbers(LEAST_DRIVER[numbers(toolkit.cuda)[0]])[:1] for toolkit in TOOLKITS)
    for release in TORCH:
        assert set(release.wheels) <= set(toolkits)
        assert release.default in release.wheels
    for built in ARCHITECTURES:
        having = [numbers(release.torch) for release in TORCH if built.cuda in release.wheels]
        assert {numbers(built.first), numbers(built.last)} <= set(having)


def test_every_offer_runs() -> None:
    """Whatever fails: what is offered instead does not."""
    for release in TORCH:
        for driver in ("450.80.02", "535.104.05", "580.65.06"):
            for capability in ("7.0", "8.0", "9.0", "10.0"):
                told = compatibility(torch=release.torch, driver=driver, compute_capability=capability)
                if not told.offer:
                    continue
                torch, _plus, index = told.offer.removeprefix("torch ").partition("+")

                again = compatibility(torch=torch, cuda=index, driver=driver, compute_capability=capability)
                assert (told.verdict, again.verdict != "fail") == ("fail", True)


@pytest.mark.parametrize(
    ("driver", "written"), [("570.1", "570.1"), ("535.104.05", "535.104.05"), ("535.104.5", "535.104.05"), ("580", "580")]
)
def test_a_driver_is_written_as_its_vendor_does(driver: str, written: str) -> None:
    """Two digits in the third place alone."""
    assert compatibility(torch="2.9", driver=driver).reasons[0].english().startswith(f"Driver {written} ")


def test_what_is_not_given_is_not_judged_and_says_so() -> None:
    """A verdict of the driver alone is none of the GPU, and the other way round."""
    of_driver = [text.english() for text in compatibility(torch="2.9", driver="595.45.04").reasons]
    of_gpu = [text.english() for text in compatibility(torch="2.9", compute_capability="9.0").reasons]
    of_both = [text.english() for text in compatibility(torch="2.9", driver="595.45.04", compute_capability="9.0").reasons]

    assert "The GPU is not given, so it is not judged." in of_driver
    assert "The driver is not given, so it is not judged." in of_gpu
    assert not [text for text in of_both if "not judged" in text]
