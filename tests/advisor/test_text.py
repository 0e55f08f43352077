"""Where a value may stand in a command: what its quoting would be undone by."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.text import quoted, read_again, within_quotes


@pytest.mark.parametrize(
    "template",
    [
        'run --name "{job}"',
        "run --name '{job}'",
        "f'{job}'",
        "echo 'a' \"b {job} c\"",
        r"echo \{job}",
        "see `kill {job}`",
        "cat <<END\n{job}\nEND",
        '{busy:.0%} "{job}"',
        "ask the job's owner about {job}",
        r"echo it\'s o'clock {job}",
        "echo $(( {job} ))",
        "echo $({job})",
        'echo "$(kill "{job}")"',
        "echo ${{x:-{job}}}",
        "echo ${job}",
        "a[{job}]=1",
        "(( {job} > 0 ))",
        "diff <(cat {job}) x",
        r"echo $'it\' {job}'",
        "kill {job} 'and no end",
        'kill {job} "and no end',
    ],
)
def test_a_field_that_undoes_its_quoting_is_found(template: str) -> None:
    """Within quotes of either kind, substitutions, arithmetic or a here-document, after a backslash or a dollar sign, before an open end."""
    assert within_quotes(template, ["job"]) == "job"


@pytest.mark.parametrize(
    "template",
    [
        "run --name {job}",
        "run --name={job} 'else'",
        'echo "a" {job} "b"',
        r"echo it\'s {job}",
        "ask the owner of {job}",
        "Don't end the owner's run: {job}",  # two apostrophes are a pair of quotes
        "ask the job’s owner about {job}",
        'cp "${{HOME}}/x" {job}',
        '{{"name": {job}}}',
        'wait "{busy:.0f}"',
    ],
)
def test_a_field_that_stands_as_a_word_may_stand(template: str) -> None:
    """Beside quotes that are closed; and what is no text is not quoted anywhere."""
    assert within_quotes(template, ["job"]) is None


REREAD = [
    "eval kill {job}", "sh -c {job}", "bash -lc {job}", "sudo bash -c kill\\ {job}", "ssh host kill {job}", "su -c {job} root", "echo {job} | xargs kill",
    "echo {job} | bash", "echo {job} | sudo /bin/sh -s", "watch kill {job}", "/usr/bin/env -S {job}", "python3 -c {job}", "sbatch --wrap={job} x",
    "docker exec c sh -c {job}", "declare {job}", "[[ {job} -eq 0 ]]", "trap {job} EXIT", "bash {job}",
]  # fmt: skip


@pytest.mark.parametrize("template", REREAD)
def test_a_command_that_reads_its_words_again_is_found(template: str) -> None:
    """It takes the quotes away: what is left runs."""
    found = read_again(template, ["job"])

    assert found is not None
    assert found[0] == "job"
    assert read_again(template.replace("{job}", "3"), ["job"]) is None
    assert read_again(template, ["other"]) is None


@pytest.mark.parametrize(
    "template",
    [
        "scancel {job}",
        "bash drain.sh {job}",
        "kubectl logs -c {job} pod",
        "ask in the watchers group about {job}",
        "python3 train.py {job}",
        "grep -c {job} f",
    ],
)
def test_a_command_that_takes_words_as_they_are_may_stand(template: str) -> None:
    """A script gets its arguments as they are, and -c is an option of many programs."""
    assert read_again(template, ["job"]) is None


PIECES = st.sampled_from(
    ["{job}", "{job}", " {job}", "'", '"', "\\", "`", "$", "$(", ")", "$((", "))", "${{x}}", "${{x:-", "}}", "<<E\n", "\nE\n", "[", "]", "a", " ", ";", "|",
     " | bash", " | sh", "eval ", "sh -c ", "bash -c ", "xargs ", " | xargs ", "env -S ", "#", "echo ", ": ", "x=", "((", "<(", "&", "!", "[[ ", " ]]", " -eq 0"]
)  # fmt: skip
HOSTILE = ["; touch {canary};", "$(touch {canary})", "`touch {canary}`", "' ; touch {canary}; '", '" ; touch {canary}; "', "\\' ; touch {canary}; #",
           "a[$(touch {canary})]", "touch {canary}", "x' | touch {canary} #"]  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(PIECES, min_size=1, max_size=7), value=st.sampled_from(HOSTILE))
def test_no_value_runs_in_a_change_that_is_taken(tmp_path: Path, pieces: list[str], value: str) -> None:
    """A real bash reads the change with a hostile value in it: nothing of the value runs, whatever stands around it."""
    template = "echo " + "".join(pieces)
    try:
        if "{job}" not in template or within_quotes(template, ["job"]) or read_again(template, ["job"]):
            return
    except ValueError:  # a brace alone: refused before
        return
    canary = tmp_path / "ran"
    filled = quoted(template, {"job": value.format(canary=canary)}, ["job"])
    assert filled is not None

    subprocess.run(
        ["bash", "--norc", "-c", filled],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=10,
        env={"PATH": "/usr/bin:/bin"},
    )

    assert not canary.exists(), filled


ACCEPTED = [
    "kill --name {job}",
    "kill --name={job} 'else'",
    'echo "a" {job} "b"',
    r"echo it\'s {job}",
    "wait {job} && echo {job}",
    'cp "${{HOME}}/x" {job}',
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("template", ACCEPTED)
def test_a_value_comes_out_as_one_word(template: str, value: str) -> None:
    """As bash splits the line: the value is in one of its words, whole."""
    assert within_quotes(template, ["job"]) is None
    assert read_again(template, ["job"]) is None
    filled = quoted(template, {"job": value}, ["job"])
    assert filled is not None

    line = filled.replace("&&", "and")
    told = subprocess.run(
        ["bash", "--norc", "-c", f"printf '%s\\0' {line}"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
    ).stdout.split("\0")

    assert [word for word in told if value in word] == [f"--name={value}" if "=" in template else value] * template.count("{job}")
