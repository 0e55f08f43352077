"""Words that no flag knows end a command with the nearest right name."""

import pytest

from cli.__main__ import main
from cli.agent import main as agent


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agent", "--spol", "/x"], "there is no --spol; did you mean --spool?"),
        (["agent", "--sever=ws://a/"], "there is no --sever; did you mean --server?"),
        (["agent", "statsu", "--spol", "/x"], "there is no --spol; did you mean --spool?"),
        (["agent", "status", "xyzzy"], "there is no xyzzy; --help tells what there is."),
        (["advise", "a.jsonl.gz", "--jsno"], "there is no --jsno; did you mean --json?"),
    ],
)
def test_the_nearest_flag_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2, by `fettle` and by the agent's one file."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    if words[0] == "agent":
        with pytest.raises(SystemExit):
            agent(words[1:], "fettle-agent")
        assert said in capsys.readouterr().err


def test_a_word_that_the_agent_does_not_know_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It must not stream instead."""
    assert main(["agent", "statsu"]) == 2
    assert "there is no statsu; there are run, doctor, status" in capsys.readouterr().err
