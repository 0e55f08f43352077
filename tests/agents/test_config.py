"""Settings: flags over a file, unknown keys are errors, every message says what to do."""

from pathlib import Path

import pytest

from agents.config import AgentConfig, ConfigError, load


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
        ('server = "http://a/"', "ws://"),
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
    with pytest.raises(ConfigError, match=message):
        load(file, {})


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
