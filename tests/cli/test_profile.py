"""`fettle profile`: its text, its JSON, and how it refuses what is no profile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.__main__ import main
from tests.advisor.profiles.traces import CPU_ALONE, SCENE, SCENE_METADATA, kernel, write

ROOT = Path(__file__).resolve().parent.parent.parent


def profile(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code, what was printed and what went to standard error."""
    code = main(["profile", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_it_prints_what_a_trace_tells(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Whose it is, the parts of the time, kernels, copies and what they say of the rules."""
    code, out, err = profile(capsys, write(tmp_path / "run.json", SCENE, **SCENE_METADATA))

    assert (code, err) == (0, "")
    assert out.startswith(f"run.json: a trace of torch.profiler, rank 3 of 8, {len(SCENE)} events\nSteps: 2, median 150 us")
    assert "GPU 0 (NVIDIA H200): 250 us from its first activity to its last, 4 kernels, 2 streams\n" in out
    assert "  communication exposed     16%  #####\n" in out
    assert "    DataLoader              24%  #######\n" in out
    assert "     50.0%     50 us         1     50 us  ncclDevKernel_AllReduce" in out
    assert "Matrix work off the tensor cores (fp32 20 us):" in out
    assert "Copies HtoD (Pageable -> Device): 1, 0.004 MB, 20 us" in out
    assert "supports:       comm-not-overlapped. Communication ran" in out


def test_it_prints_one_json_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Seconds, shares and reasons under fixed names."""
    code, out, _err = profile(capsys, write(tmp_path / "run.json", SCENE), "--json")
    said = json.loads(out)

    assert code == 0
    assert set(said) == {"source", "devices", "steps", "evidence", "absent", "features"}
    assert said["devices"][0]["idle"]["loading_s"] == pytest.approx(60e-6)
    assert said["source"]["rank"] is None
    assert said["absent"]["source.rank"].endswith(".")
    assert {"rule", "verdict", "text", "numbers"} == set(said["evidence"][0])


@pytest.mark.parametrize(
    "text",
    ["[[[[", "[", "[]", "{}", "[{}]", "[1, 2, 3]", "[[], []]", '[{"a": 1}, {"b": 2}]', '{"traceEvents": []}',
     '{"traceEvents": [1, 2]}', '{"traceEvents": [{}, {}]}', '{"traceEvents": [', '{"traceEvents": [{"ph": 7}]}', "[null]"],
)  # fmt: skip
def test_what_holds_no_event_is_no_trace(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One sentence and exit code 2, never a trace of 0 events."""
    file = tmp_path / "x.json"
    file.write_text(text)
    code, out, err = profile(capsys, file)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"fettle profile: {file} ")


def test_a_trace_that_breaks_off_gives_the_events_that_it_has(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And says so."""
    file = write(tmp_path / "run.json", SCENE)
    file.write_text(file.read_text()[:-60])
    code, out, _err = profile(capsys, file)

    assert code == 0
    assert f"{len(SCENE) - 1} events\nNote: The file ends in the middle, as of a run that was killed" in out


def test_names_move_no_cursor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A kernel may be called anything, escape sequences and line ends too."""
    path = write(tmp_path / "run.json", [kernel("evil\x1b[2Jname\nsecond\u202e", 1, 2), kernel("b" * 5000, 3, 4)])
    for flag in ([], ["--json"]):
        _code, out, _err = profile(capsys, path, *flag)

        assert all(character.isprintable() or character == "\n" for character in out)
        assert "b" * 301 not in out


def test_without_a_gpu_it_says_why_there_is_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A trace of the CPU alone is a trace."""
    code, out, _err = profile(capsys, write(tmp_path / "run.json", CPU_ALONE))

    assert code == 0
    assert "ProfilerActivity.CUDA" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"", "is empty"), (b'{"recording": 1}', "no list named traceEvents"), (b"\x7fELF", "is not JSON")],
)
def test_what_is_no_profile_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, said: str
) -> None:
    """One sentence on standard error, and exit code 2."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)

    code, out, err = profile(capsys, path)

    assert (code, out) == (2, "")
    assert err.startswith("fettle profile: ")
    assert said in err
    assert err.count("\n") == 1


def test_the_json_has_the_features_that_rules_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As `fettle advise --profile` and the server use them; null where no GPU was used."""
    _code, out, _err = profile(capsys, write(tmp_path / "run.json", SCENE), "--json")
    assert json.loads(out)["features"]["profile_idle_share"] == pytest.approx(0.56)

    _code, out, _err = profile(capsys, write(tmp_path / "none.json", CPU_ALONE), "--json")
    assert json.loads(out)["features"] is None


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--send"], "--send needs --job JOB, or --pid PID"),
        (["--send", "--job", "n1/a/b", "--pid", "7"], "--send needs --job JOB, or --pid PID"),
        (["--send", "--job", "python"], "NODE/USER/PROGRAM"),
        (["--send", "--pid", "-3"], "is no process"),
        (["--job", "n1/a/b"], "--job says where to send the summary: give --send too"),
        (["--send", "--job", "n1/a/b", "--server", "http://x"], "must begin with ws:// or wss://"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    flags: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 2 with a sentence."""
    code, _out, err = profile(capsys, write(tmp_path / "run.json", SCENE), *flags)

    assert code == 2
    assert says in err


def test_what_cannot_be_sent_is_told_after_the_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1: no server, no token, or a trace without a GPU; the summary is printed all the same."""
    monkeypatch.delenv("FETTLE_AGENT_TOKEN", raising=False)
    monkeypatch.delenv("FETTLE_AGENT_CONFIG", raising=False)
    path = write(tmp_path / "run.json", SCENE)
    send = ("--send", "--job", "n1/alice/python")
    for words, says in (
        ((path, *send), "no server is set"),
        ((path, *send, "--server", "ws://127.0.0.1:9/ws/agent/"), "no token"),
        ((write(tmp_path / "none.json", CPU_ALONE), *send), "no time on a GPU"),
    ):
        code, out, err = profile(capsys, *words)
        assert code == 1
        assert out
        assert "fettle profile: not sent: " in err
        assert says in err


def test_it_loads_neither_polars_nor_django(tmp_path: Path) -> None:
    """Reading a trace needs none of what judges a fleet."""
    path = write(tmp_path / "run.json", SCENE)
    code = (
        "import sys; from cli.__main__ import main; main(['profile', sys.argv[1]]);"
        " assert not {'polars', 'django', 'torch'} & set(sys.modules), set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
