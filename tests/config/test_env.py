"""Settings from the environment are read loudly."""

from pathlib import Path

import pytest

from config import env


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("no", False), ("", False)])
def test_it_reads_yes_and_no(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    """The usual spellings are understood."""
    monkeypatch.setenv("FETTLE_X", text)

    assert env.boolean("FETTLE_X", not value, about="") is value


def test_it_refuses_a_word_that_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and what may stand there."""
    monkeypatch.setenv("FETTLE_X", "maybe")

    with pytest.raises(env.SettingError, match="FETTLE_X='maybe' is neither yes nor no"):
        env.boolean("FETTLE_X", True, about="")


@pytest.mark.parametrize(
    ("text", "message"), [("ten", "is not a whole number"), ("0", "outside 1 to 60"), ("61", "outside 1 to 60")]
)
def test_it_refuses_a_number_that_cannot_be(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    """Text and numbers out of bounds stop the start."""
    monkeypatch.setenv("FETTLE_X", text)

    with pytest.raises(env.SettingError, match=message):
        env.integer("FETTLE_X", 5, 1, 60, about="")


@pytest.mark.parametrize(
    ("text", "message"), [("ten", "is not a number"), ("nan", "outside 0 to 10"), ("inf", "outside"), ("-1", "outside")]
)
def test_it_refuses_a_fraction_that_cannot_be(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    """Neither text nor what is no finite number within the bounds."""
    monkeypatch.setenv("FETTLE_X", text)

    with pytest.raises(env.SettingError, match=message):
        env.number("FETTLE_X", 5, 0, 10, about="")


@pytest.mark.parametrize(("text", "value"), [("2.5", 2.5), ("0", 0.0), ("", None), (" ", None)])
def test_it_takes_a_fraction_and_none(monkeypatch: pytest.MonkeyPatch, text: str, value: float | None) -> None:
    """An empty variable is as one that is not set: a price may be unknown, and zero is a price."""
    monkeypatch.setenv("FETTLE_X", text)

    assert env.number("FETTLE_X", None, 0, 10, about="") == value


def test_it_takes_a_secret_from_its_file_only_when_the_variable_is_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment comes first."""
    file = tmp_path / "key"
    file.write_text("f" * 40 + "\n")

    assert env.secret("FETTLE_X", file, about="") == "f" * 40
    monkeypatch.setenv("FETTLE_X", "e" * 40)
    assert env.secret("FETTLE_X", file, about="") == "e" * 40


@pytest.mark.parametrize("key", ["", "short", "x" * 31])
def test_it_refuses_a_secret_that_anybody_could_guess(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str) -> None:
    """An empty or short key never signs a session."""
    monkeypatch.setenv("FETTLE_X", key)

    with pytest.raises(env.SettingError, match="empty or shorter than 32"):
        env.secret("FETTLE_X", tmp_path / "none", about="")


def test_it_says_how_to_get_a_secret_that_is_missing(tmp_path: Path) -> None:
    """The first start without `make up` is told what to do."""
    with pytest.raises(env.SettingError, match="`make up` writes one"):
        env.secret("FETTLE_NOT_SET", tmp_path / "none", about="")


def test_it_takes_one_of_the_words_that_may_stand_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other stops the start and is answered with the list."""
    monkeypatch.setenv("FETTLE_X", "zzz")

    with pytest.raises(env.SettingError, match="FETTLE_X='zzz' is none of parquet, memory"):
        env.choice("FETTLE_X", "parquet", ("parquet", "memory"), about="")


@pytest.mark.parametrize(
    "text",
    [
        *("foo", "http://", "ftp://host", "//host", "unix://", "http://host:port", "http://[::1", "http://me:s3cr/et@x"),
        *(
            "http://ho st:80",
            "http://me:s3cret@ho\tst",
            "http://host/\n",
            "http://ho<st",
            "http://host..x",
            f"http://{'host' * 16}",
        ),
    ],
)
def test_it_refuses_what_is_no_url_and_does_not_show_it(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A URL may hold a password."""
    monkeypatch.setenv("FETTLE_X", text)

    with pytest.raises(env.SettingError, match=r"^FETTLE_X is no URL") as raised:
        env.url("FETTLE_X", "", ("http", "unix"), about="")
    assert "host" not in str(raised.value).replace("http", "")
    assert "s3cr" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["http://h", "http://user:word@[::1]:80/x", "unix:///run/x.sock", "http://my_h.", "http://bücher.example"]
)
def test_it_takes_a_url(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """As it is written."""
    monkeypatch.setenv("FETTLE_X", text)

    assert env.url("FETTLE_X", "", ("http", "unix"), about="") == text


def test_a_list_that_must_hold_something_may_not_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host name would lock everybody out without a word."""
    monkeypatch.setenv("FETTLE_X", " , ")

    with pytest.raises(env.SettingError, match="FETTLE_X is empty"):
        env.words("FETTLE_X", "a,b", about="")
    assert env.words("FETTLE_X", about="") == []


def test_it_takes_places_in_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses, networks, and names of hosts."""
    monkeypatch.setenv("FETTLE_X", "10.20.0.0/16, 192.168.7.7,fd00::/8,::1,mail.corp,localhost")

    assert env.places("FETTLE_X", about="") == ["10.20.0.0/16", "192.168.7.7", "fd00::/8", "::1", "mail.corp", "localhost"]


@pytest.mark.parametrize("text", ["10.20.0.0/33", "10.20.0", "300.1.1.1", "http://mail.corp", "mail.corp:25", "a b", "-x", "*"])
def test_it_refuses_what_is_no_place(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A slip would refuse every message to a chat of one's own."""
    monkeypatch.setenv("FETTLE_X", f"mail.corp,{text}")

    with pytest.raises(env.SettingError, match="neither an address, nor a network"):
        env.places("FETTLE_X", about="")


def test_a_variable_that_nobody_reads_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is misspelt would otherwise do nothing; what belongs to other programs is left alone."""
    monkeypatch.setattr(env, "_asked", {"PRE_FLUSH_S"})
    monkeypatch.setenv("PRE_OTHER_X", "1")
    env.refuse_unknown("PRE_", ["PRE_ADMIN"], elsewhere=("PRE_OTHER_",))
    monkeypatch.setenv("PRE_FLUSH_SS", "1")

    with pytest.raises(env.SettingError, match="PRE_FLUSH_SS is no setting; PRE_FLUSH_S is"):
        env.refuse_unknown("PRE_", ["PRE_ADMIN"], elsewhere=("PRE_OTHER_",))


def test_a_coarser_resolution_may_not_go_before_a_finer_one() -> None:
    """Both variables are named, with what they hold."""
    env.rises({"FETTLE_FINE": 1, "FETTLE_SAME": 1, "FETTLE_COARSE": 7}, "days")
    with pytest.raises(env.SettingError, match=r"FETTLE_COARSE is 2 days and FETTLE_FINE is 2\.5"):
        env.rises({"FETTLE_FINE": 2.5, "FETTLE_COARSE": 2}, "days")


def test_a_secret_may_lie_in_a_file_that_a_variable_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its first line, and before the file where it lies otherwise; both variables at once are a mistake."""
    (tmp_path / "named").write_text("n" * 40 + "\nmore\n")
    (tmp_path / "key").write_text("f" * 40)
    monkeypatch.setenv("FETTLE_X_FILE", str(tmp_path / "named"))

    assert env.secret("FETTLE_X", tmp_path / "key", about="") == "n" * 40
    monkeypatch.setenv("FETTLE_X", "e" * 40)
    with pytest.raises(env.SettingError, match="FETTLE_X and FETTLE_X_FILE are both set"):
        env.secret("FETTLE_X", tmp_path / "key", about="")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), (b"\n", "is empty"), (b"\xff", "is no text")]
)
def test_a_file_without_a_secret_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, message: str
) -> None:
    """With its variable."""
    if content is not None:
        (tmp_path / "named").write_bytes(content)
    monkeypatch.setenv("FETTLE_X_FILE", str(tmp_path / "named"))

    with pytest.raises(env.SettingError, match=f"FETTLE_X_FILE=.*named {message}"):
        env.secret("FETTLE_X", tmp_path / "none", about="")


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("postgresql://fettle@db:5432/x", "postgresql://fettle:p%40%2Fss@db:5432/x"),
        ("redis://[::1]:6379/0", "redis://:p%40%2Fss@[::1]:6379/0"),
        ("redis://broker", "redis://:p%40%2Fss@broker"),
    ],
)
def test_a_password_from_a_file_gets_into_the_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, full: str) -> None:
    """Whatever characters it has; without the variable the URL stays."""
    (tmp_path / "password").write_text("p@/ss\n")

    assert env.password("X_PASSWORD_FILE", url, "X_URL", about="") == url
    monkeypatch.setenv("X_PASSWORD_FILE", str(tmp_path / "password"))
    assert env.password("X_PASSWORD_FILE", url, "X_URL", about="") == full


@pytest.mark.parametrize(
    ("url", "message"), [("redis://:other@h", "X_URL holds a password too"), ("unix:///run/x.sock", "names no server")]
)
def test_a_password_that_has_no_place_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, message: str) -> None:
    """And is not shown."""
    (tmp_path / "password").write_text("word\n")
    monkeypatch.setenv("X_PASSWORD_FILE", str(tmp_path / "password"))

    with pytest.raises(env.SettingError, match=message) as raised:
        env.password("X_PASSWORD_FILE", url, "X_URL", about="")
    assert "other" not in str(raised.value)
    assert "word\n" not in str(raised.value)
