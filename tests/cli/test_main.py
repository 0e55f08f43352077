"""The `fettle` command itself."""

from importlib.metadata import version

import pytest

from cli.__main__ import main


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and success."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code in (0, None)
    assert capsys.readouterr().out == f"fettle {version('fettle')}\n"


def test_it_lists_its_verbs_and_wants_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Help names every verb and the version; nothing at all is bad usage."""
    with pytest.raises(SystemExit) as helped:
        main(["--help"])
    with pytest.raises(SystemExit) as bare:
        main([])

    assert (helped.value.code, bare.value.code) == (0, 2)
    out = capsys.readouterr().out
    assert all(word in out for word in ("advise", "agent", "plan", "profile", "record", "run", "--version"))
