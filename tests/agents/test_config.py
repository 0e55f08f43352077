"""Settings: flags over a file, unknown keys are errors, every message says what to do."""

from pathlib import Path

import pytest

from agents.config import AgentConfig, ConfigError, listen_address, load, settings
from agents.server_url import shown
from cli.agent import main


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    """A flag that was not given does not count."""
    file = tmp_path / "agent.toml"
    file.write_text('server = "ws://a/"\nnode = "from-file"\nspool = "/var/spool"\n')
    config = load(file, {"node": "from-flag", "server": None})

    assert (config.server, config.node, config.spool) == ("ws://a/", "from-flag", Path("/var/spool"))


def test_the_hosts_name_is_the_default_node() -> None:
    """A node always has a name."""
    assert load(None, {}).node


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('sever = "ws://a/"', "sever"),
        ("gpus = 0", "gpus"),
        ("speed = 0", "speed"),
        ("spool_max_mb = -1", "spool_max_mb"),
        ('wire = "xml"', "xml"),
        ('server = "http://a/"', "server must begin with ws://"),
        ('server = "ws://"', "server has a host or a port that is none"),
        ('server = "ws://a:99999/"', "server has a host or a port that is none"),
        ('server = "ws://a b/"', "server has a space"),
        ('server = "ws://a/#b"', "server has a part after #"),
        ('server = ""', r"server is empty: give it a value, or leave it out\.$"),
        ('node = "a\\nb"', r"node has a control character in it: leave that out\.$"),
        ('node = "a b"', "node=.*can be no node's name"),
        ('server = "ws://a..b/"', "server has a host or a port that is none"),
        ('server = "ws://./"', "server has a host or a port that is none"),
        (f'server = "ws://{"a" * 64}.example/"', "server has a host or a port that is none"),
        ('server = "ws://[1::2::3]/"', "server has a host or a port that is none"),
        ('server = "ws://ab%zz/"', "server has a host or a port that is none"),
        ('dcgm = ["http://a..b/metrics"]', "dcgm, address 1: it must be an address"),
        ('engines = ["vllm=http://."]', "engines, entry 1: it must be an address"),
        (f'otlp = "http://{"a" * 64}/"', "otlp: it must be an address"),
        ('dcgm = ["http://a/\\u0000"]', "dcgm has a control character in it"),
        ('spool = "a\\u0000b"', "spool has a control character in it"),
        ('token_file = "\\u001b[31m"', "token_file has a control character in it"),
        ('replay = [""]', "replay is empty"),
        ("dcgm = " + "[" * 50_000 + "]" * 50_000, "not TOML: its brackets stand too deep"),
        ("spool_max_mb = " + "9" * 5000, "not TOML: Exceeds the limit"),
        ("node = 2020-01-01", "node: Expected `str`, got `date`"),
        ("spool = 2020-01-01", "spool: Expected a path, as text"),
        ("# " + "x" * 1_000_000, "it is larger than 1 MB"),
        ('node = "-a"', "node=.*can be no node's name"),
        ('node = "a/../b"', "node=.*can be no node's name"),
        ("server = 3", "server"),
        ("server = ", "not TOML"),
        ('source = "dcgm"', "needs an endpoint"),
        ('dcgm = ["http://a/metrics", "me:secret@host:99999999"]', "dcgm, address 2: "),
        ('engines = ["vllm=http://a", "tgi=http://b"]', "engines, entry 2: it must begin with vllm"),
        ('engines = ["vllm=ftp://a"]', "engines, entry 1: it must be an address"),
    ],
)
def test_bad_settings_name_the_key(tmp_path: Path, content: str, message: str) -> None:
    """The error is one sentence about the setting."""
    file = tmp_path / "agent.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load(file, {})
    assert str(caught.value).isprintable()


def test_a_name_with_escape_sequences_is_told_as_text(tmp_path: Path) -> None:
    """A terminal obeys nothing of a file that was given by mistake."""
    file = tmp_path / "agent.toml"
    file.write_text('"\\u001b[31mno\\n" = 1\n')
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value).isprintable()


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    """As a device is that somebody names by mistake."""
    with pytest.raises(ConfigError, match="/dev/zero: cannot be read: it is larger than 1 MB"):
        load(Path("/dev/zero"), {})


@pytest.mark.parametrize(
    "tokens", ["[" * 50_000 + "]" * 50_000, '{"n": ' + "9" * 5000 + "}", '{"n": 1e999}', "", "3"], ids=lambda odd: odd[:9]
)
def test_a_file_of_tokens_that_is_none_is_a_sentence(tmp_path: Path, tokens: str) -> None:
    """And no traceback, which systemd would restart for ever."""
    file = tmp_path / "tokens.json"
    file.write_text(tokens)
    with pytest.raises(ConfigError, match="not a JSON object of node names and tokens"):
        load(None, {"tokens": file, "replay": (str(tmp_path),)}).token("n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """As the operator wrote it."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml", {})


def test_tokens_come_from_a_file_a_table_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a node without one is told so."""
    one, table = tmp_path / "token", tmp_path / "tokens.json"
    one.write_text("abc\n")
    table.write_text('{"n": "def"}')
    monkeypatch.setenv("FETTLE_AGENT_TOKEN", "ghi")

    assert AgentConfig(token_file=one).token("n") == "abc"
    assert AgentConfig(tokens=table).token("n") == "def"
    assert AgentConfig().token("n") == "ghi"
    with pytest.raises(ConfigError, match="no token for node 'm'"):
        AgentConfig(tokens=table).token("m")
    monkeypatch.delenv("FETTLE_AGENT_TOKEN")
    with pytest.raises(ConfigError, match="--token-file"):
        AgentConfig().token("n")
    table.write_text("[]")
    with pytest.raises(ConfigError, match="JSON object"):
        AgentConfig(tokens=table).token("n")


def test_an_address_that_is_wrong_is_not_repeated(tmp_path: Path) -> None:
    """It may hold a password, and messages end up in logs."""
    with pytest.raises(ConfigError) as caught:
        load(None, {"dcgm": ["ftp://me:secret@host/"]})

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ws://me:secret@host/", "ws://me:secret@host:port/", "ws://me:secret@ho\u2100st/", "me:secret@host"]
)
@pytest.mark.parametrize("setting", ["server", "otlp"])
def test_no_message_repeats_a_password(setting: str, url: str) -> None:
    """Whatever else is wrong with the address; one to the server may hold none at all."""
    with pytest.raises(ConfigError) as caught:
        load(None, {setting: url})

    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith(setting)


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    """Neither user nor password nor query."""
    assert shown("wss://me:secret@host:8443/ws/agent/?token=secret") == "wss://host:8443/ws/agent/"
    assert shown("ws://[::1]:8000/ws/agent/") == "ws://[::1]:8000/ws/agent/"


@pytest.mark.parametrize("url", ["ws://a/", "wss://a.b-c:8443/ws/agent/", "ws://127.0.0.1:1/x?y=1", "ws://[fe80::1%eth0]:80/"])
def test_addresses_of_servers_are_taken(url: str) -> None:
    """With names, numbers, ports and paths."""
    assert load(None, {"server": url}).server == url


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Each setting is taken from the first that has it; words become what the field is."""
    file = tmp_path / "agent.toml"
    file.write_text('node = "file"\nspool_max_mb = 1\nspeed = 3.0\n')
    variables = {
        "FETTLE_AGENT_NODE": "environment",
        "FETTLE_AGENT_SPOOL_MAX_MB": "2",
        "FETTLE_AGENT_FIND_ENGINES": "false",
        "FETTLE_AGENT_ENGINES": "vllm=http://a, triton=http://b",
        "FETTLE_AGENT_TOKEN": "no setting, but known",
        "HOME": "/",
    }
    config = load(file, {"node": "flag", "gpus": "4", "speed": None}, variables)

    assert (config.node, config.spool_max_mb, config.speed, config.gpus) == ("flag", 2, 3.0, 4)
    assert config.find_engines is False
    assert config.engines == ("vllm=http://a", "triton=http://b")


@pytest.mark.parametrize(
    ("content", "variables", "message"),
    [
        ('sever = "ws://a/"', {}, r"no setting 'sever'; did you mean server\?$"),
        ("xyzzy = 1", {}, "there are allow_commands, dcgm"),
        ("", {"FETTLE_AGENT_SPOL": "/x"}, r"no variable FETTLE_AGENT_SPOL; did you mean FETTLE_AGENT_SPOOL\?$"),
        ("", {"FETTLE_AGENT_SPEED": "fast"}, "FETTLE_AGENT_SPEED: Expected"),
        ("", {"FETTLE_AGENT_GPUS": "0"}, "FETTLE_AGENT_GPUS: Expected `int` >= 1"),
        ('gpus = "4"', {}, "gpus: Expected `int"),
        (
            "",
            {"FETTLE_AGENT_ALLOW_COMMANDS": "release,reboot"},
            "FETTLE_AGENT_ALLOW_COMMANDS: .*reboot.*It can be pause_profiling, release",
        ),
        ("", {"FETTLE_AGENT_LISTEN": ""}, r"^FETTLE_AGENT_LISTEN is empty: give it a value, or leave it out\.$"),
        ("", {"FETTLE_AGENT_SPOOL": ""}, "^FETTLE_AGENT_SPOOL is empty"),
        ('otlp = "me:secret@host"', {}, "otlp: it must be an address"),
        ('listen = "here"', {}, "must be HOST:PORT"),
        ('listen = "::1:9401"', {}, "must be HOST:PORT"),
        ('listen = "[::1:9401"', {}, "must be HOST:PORT"),
        ('listen = "::1]:9401"', {}, "must be HOST:PORT"),
        ('listen = "[a]:9401"', {}, "must be HOST:PORT"),
        ('listen = "[::1]9401"', {}, "must be HOST:PORT"),
        ('listen = "a..b:9401"', {}, "must be HOST:PORT"),
        (f'listen = "{"a" * 64}:9401"', {}, "must be HOST:PORT"),
        ('listen = "127.0.0.1:99999"', {}, "must be HOST:PORT"),
    ],
)
def test_what_is_not_known_is_named_with_the_nearest_right_name(
    tmp_path: Path, content: str, variables: dict[str, str], message: str
) -> None:
    """In a file and in the environment; a file's text is no number, a variable's is."""
    file = tmp_path / "agent.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load(file, {}, variables)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9401", ("127.0.0.1", 9401)),
        (":1", ("127.0.0.1", 1)),
        ("0.0.0.0:2", ("0.0.0.0", 2)),
        ("[::1]:3", ("::1", 3)),
        ("node-1.example:4", ("node-1.example", 4)),
    ],
)
def test_a_port_alone_means_loopback(text: str, address: tuple[str, int]) -> None:
    """Who wants others to read must say so."""
    assert listen_address(text) == address


def test_every_setting_is_described_and_has_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is made from the fields."""
    with pytest.raises(SystemExit):
        main(["--help"], "fettle-agent")
    told = capsys.readouterr().out

    for setting in settings():
        assert setting.about.endswith((".", ")")), setting.name
        assert f" {setting.flag}" in told
