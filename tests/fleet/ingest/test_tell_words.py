"""What a batch may tell of engines and processes in words: shapes, bounds, and names that give no key away."""

import pytest
from msgspec.structs import replace

from fleet.ingest.accept import MAX_ENGINES, check_hello
from tests.fleet.ingest.telling import ENGINE, URL, Teller, engines, processes, telling
from tests.speaking import GPU, HOST, PROCESS
from wire.codec import WireError
from wire.labels import MAX_LABEL, MAX_LABELS
from wire.messages import Engines, Labels, Processes, schema_id

pytestmark = pytest.mark.django_db


@pytest.fixture
def teller() -> Teller:
    """A node."""
    return Teller()


@pytest.mark.parametrize(
    "name",
    ["http://127.0.0.1:8000", "https://gpu-7.example.org/v1", "http://[::1]:8000", "http://host", "http://a/b%20c/d;e=1,f"],
)
def test_an_engine_is_named_by_where_it_is_asked(teller: Teller, name: str) -> None:
    """Hosts, IPv6 addresses, ports and paths."""
    assert teller.says(0, engines=engines(name)).batch.engines.name == [name]


@pytest.mark.parametrize(
    "name",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://ann:secret@host:8000", "http://key@host", "http://host/?key=abc",
     "http://host/#part", "http://host:8000 ", "http://ho\u202est", "http://host/\n", "http://host/<script>", "javascript:alert(1)",
     "http://host:123456", "http://host/" + "x" * 200, "HTTP://host", "http://h\u00f6st", "http://host:8000\\@evil"],
)  # fmt: skip
def test_other_names_are_refused_and_not_repeated(teller: Teller, name: str) -> None:
    """Credentials and queries may hold keys: they are neither stored nor in the error, which is logged and shown."""
    with pytest.raises(WireError, match="wrong_shape") as refused:
        teller.says(0, engines=engines(name))

    assert "secret" not in refused.value.detail
    assert "key=" not in refused.value.detail


def numbered(count: int) -> Engines:
    """So many engines."""
    return engines(*(f"http://h:{port}" for port in range(count)))


@pytest.mark.parametrize(
    "bad",
    [
        numbered(MAX_ENGINES + 1),
        engines(URL, URL),
        engines(URL, kind="ollama"),
        engines(URL, pid=-1),
        engines(URL, pid=1 << 31),
        Engines(name=[URL], kind=["vllm"], model=[], pid=[None], values=[[None]] * len(ENGINE)),
        Engines(name=[URL], kind=["vllm"], model=["m"], pid=[None], values=[[None]] * (len(ENGINE) - 1)),
        Engines(name=[URL], kind=["vllm"], model=["m"], pid=[None], values=[[None, None]] * len(ENGINE)),
        Engines(values=[[1.0]] * len(ENGINE)),
    ],
    ids=["65", "twice", "kind", "negative-pid", "huge-pid", "no-model", "columns", "long-column", "values-of-none"],
)
def test_engines_of_another_shape_are_refused(teller: Teller, bad: Engines) -> None:
    """By name, with the batch's seq; as many as a node may have are taken."""
    with pytest.raises(WireError, match="wrong_shape"):
        teller.says(0, engines=bad)

    assert len(teller.says(1, engines=numbered(MAX_ENGINES)).batch.engines.name) == MAX_ENGINES


def test_an_agent_that_announced_no_engine_metric_tells_of_none(teller: Teller) -> None:
    """It may name an engine, without values; one more column than announced is refused."""
    said = telling("n")
    layout = check_hello(
        type(said)(node="n", boot="b", agent_version="1", gpu_metrics=GPU, host_metrics=HOST, process_metrics=PROCESS,
                   schema=schema_id(GPU, HOST, PROCESS)), "n"
    )  # fmt: skip
    assert layout.engine == ()
    teller.session.layout = layout

    assert teller.says(0, engines=Engines(name=[URL], kind=["vllm"], model=[""], pid=[None]))
    with pytest.raises(WireError, match="wrong_shape"):
        teller.says(1, engines=Engines(name=[URL], kind=["vllm"], model=[""], pid=[None], values=[[1.0]]))


def test_an_engine_metric_that_nobody_knows_is_refused_in_the_hello() -> None:
    """As those of the other scopes; one twice too, and a schema that leaves them out."""
    odd = (*ENGINE, "magic_s")
    for names, schema, code in (
        (odd, schema_id(GPU, HOST, PROCESS, odd), "unknown_metric"),
        ((*ENGINE, ENGINE[0]), schema_id(GPU, HOST, PROCESS, (*ENGINE, ENGINE[0])), "bad_hello"),
        (ENGINE, schema_id(GPU, HOST, PROCESS), "bad_hello"),
    ):
        with pytest.raises(WireError, match=code):
            check_hello(replace(telling("n"), engine_metrics=names, schema=schema), "n")


def test_labels_may_be_told_later_than_the_process(teller: Teller) -> None:
    """Reading them takes a while: by then the process may be gone from the list, and its pid was told of on this connection."""
    teller.says(0, processes=processes({7: "python"}))

    assert teller.says(1, processes=processes({}, {7: {"slurm_job": "12"}}))
    assert teller.says(2, processes=processes({8: "python"}, {8: {"env.NCCL_DEBUG": "INFO", "flag.tensor-parallel-size": "4"}}))
    assert teller.says(3, processes=processes({8: "python"}, {8: {"told.params": "7000000000", "told.of_a_newer_agent": "1"}}))


@pytest.mark.parametrize(
    "labels",
    [
        [Labels(9, {"torch": "2.9"})],
        [Labels(-1, {})],
        [Labels(7, {"torch": "2.9"}), Labels(7, {"torch": "2.9"})],
        [Labels(7, {"env.AWS_SECRET_ACCESS_KEY": "x"})],
        [Labels(7, {"env.HOME": "/root"})],
        [Labels(7, {"argv": "python --password=x"})],
        [Labels(7, {"flag.<script>": "x"})],
        [Labels(7, {"told.<script>": "x"})],
        [Labels(7, {"env.NCCL_\u202edebug": "x"})],
        [Labels(7, {"torch": "x" * (MAX_LABEL + 1)})],
        [Labels(7, {f"flag.f{n}": "1" for n in range(MAX_LABELS + 1)})],
    ],
    ids=[
        "strange-pid",
        "negative-pid",
        "twice",
        "secret",
        "not-listed",
        "command-line",
        "markup",
        "told-markup",
        "turned",
        "long",
        "many",
    ],
)
def test_other_labels_are_refused(teller: Teller, labels: list[Labels]) -> None:
    """Of a process that nobody told of, with a name that is on no list, or too much."""
    listed = processes({7: "python"})
    with pytest.raises(WireError, match="wrong_shape") as refused:
        teller.says(0, processes=Processes(pid=[7], name=["python"], user=["ann"], values=listed.values, labels=labels))

    assert "\u202e" not in refused.value.detail
    assert "password=x" not in refused.value.detail
