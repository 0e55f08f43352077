"""Which word of an interpreter's command line is the program's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.collectors.interpreters import script


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("/usr/bin/python3.12 -u -W ignore -X dev /srv/x/train.py hunter2", "train.py"),
        ("python -Wignore -Xdev train.py", "train.py"),
        ("python -uW ignore train.py", "train.py"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -um torch.distributed.run train.py", "torch.distributed.run"),
        ("python -mhttp.server hunter2", "http.server"),
        ("python -- train.py", "train.py"),
        ("python --check-hash-based-pycs always train.py", "train.py"),
        ("bash run.sh hunter2", "run.sh"),
        ("-bash run.sh", "run.sh"),
        ("bash -e -o pipefail run.sh hunter2", "run.sh"),
        ("bash -euo pipefail run.sh hunter2", "run.sh"),
        ("bash --norc +o posix -- run.sh", "run.sh"),
        ("bash -m run.sh hunter2", "run.sh"),
        ("java -Xmx4g -cp /x/y.jar Main hunter2", "Main"),
        ("java -jar /x/y.jar", "y.jar"),
        ("julia -t 8 --project=. train.jl", "train.jl"),
        ("node --max-old-space-size=4096 app.js", "app.js"),
        ("perl -w x.pl", "x.pl"),
    ],
)
def test_the_script_or_module_is_the_programs_name(line: str, name: str) -> None:
    """Without its folder, whatever flags the interpreter has before it."""
    found = script(line.split(" "))

    assert found is not None
    assert found[0] == name


@pytest.mark.parametrize(
    "line",
    [
        "python - hunter2SECRETtoken",
        "python -u - hunter2",
        "python -c print() hunter2",
        "python -cprint() hunter2",
        "python -uc print() hunter2",
        "python -ucprint() hunter2",
        "python --unknown hunter2",
        "python -m",
        "python pass:word",
        "python " + "x" * 65,
        "python -W ignore",
        "python",
        "",
        "bash -s -- hunter2",
        "bash -s hunter2",
        "bash -es hunter2",
        "bash -lc run hunter2",
        "bash -c run hunter2",
        "bash -o pipefail",
        "bash - hunter2",
        "bash --unknown hunter2",
        "perl -e print hunter2",
        "perl -ne print hunter2",
        "perl - hunter2",
        "ruby -e puts hunter2",
        "node -e x hunter2",
        "node --require hunter2 app.js",
        "java --module hunter2",
        "julia -e x hunter2",
        "Rscript -e x hunter2",
    ],
)
def test_what_may_be_an_argument_is_nobodys_name(line: str) -> None:
    """A program from the standard input or from the command line itself has none; a flag that is not known may have a value."""
    assert script(line.split(" ")) is None


def test_an_empty_value_is_a_value() -> None:
    """Else the script would be taken for it, and its first argument for the script."""
    assert script(["python", "-W", "", "train.py", "hunter2"]) == ("train.py", 3)
    assert script(["python", "", "hunter2"]) is None


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_command_line_is_too_odd(words: list[str]) -> None:
    """Whatever it is, the name is short and plain, and stands where it is said to."""
    found = script(words)

    assert found is None or (0 < len(found[0]) <= 64 and " " not in found[0] and found[0] in words[found[1]])
