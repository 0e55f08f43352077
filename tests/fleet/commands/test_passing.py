"""When a command is sent, to whom, and that it is not sent twice: an agent by hand, a real server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.commands.asking import NODE, Operator, known
from tests.serving import Server, eventually, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import COMMAND_DONE, Command, Event


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that knows the node, whose agent is not there."""
    with serve(tmp_path / "data") as running:
        known(running)
        yield running


def commands(of: Agent) -> list[Command]:
    """The commands that it was sent."""
    return of.of(Command)


async def test_a_command_waits_for_its_node_and_goes_out_once(server: Server) -> None:
    """Not again to the same boot, over whichever connection; its answer ends it."""
    operator = Operator(server)
    number = operator.asks("pause_profiling", 600)[1]["id"]
    token = server.token(NODE)
    async with speak(server.agents, token) as agent:
        await agent.greet(hello(NODE))
        assert await agent.until(lambda: commands(agent))
        assert commands(agent) == [Command(name="pause_profiling", args={"seconds": 600, "by": "olga"}, id=number)]
    async with speak(server.agents, token) as agent:
        await agent.greet(hello(NODE))
        await agent.say(Event(node=NODE, boot="boot-1", seq=0, t=time.time(), kind=COMMAND_DONE, code=number, text="It is done."))
        assert await agent.until(lambda: agent.events() == {0})
        found = operator.sees(number)
        assert not await agent.until(lambda: commands(agent), 5)

    assert (found["state"], found["answer"]) == ("done", "It is done.")


async def test_a_command_that_an_agent_took_to_its_grave_goes_to_its_next_boot(server: Server) -> None:
    """What was never answered; the first answer counts."""
    operator = Operator(server)
    number = operator.asks("take_driver_back")[1]["id"]
    token = server.token(NODE)
    async with speak(server.agents, token) as agent:
        await agent.greet(hello(NODE))
        assert await agent.until(lambda: commands(agent))
    async with speak(server.agents, token) as agent:
        again = await agent.greet(hello(NODE, boot="boot-2"))
        await agent.say(batch(again, 0, time.time()))  # from now on this boot speaks for the node
        assert await agent.until(lambda: commands(agent)), operator.sees(number)

    assert commands(agent) == [Command(name="release", args={"seconds": 0, "by": "olga"}, id=number)]


async def test_an_agent_answers_for_its_own_node_alone(server: Server) -> None:
    """Another node's answer changes nothing, nor does one to a command that nobody was sent."""
    operator = Operator(server)
    number = operator.asks("take_driver_back")[1]["id"]
    async with speak(server.agents, server.token("other")) as agent:
        await agent.greet(hello("other"))
        await agent.say(Event(node="other", boot="boot-1", seq=0, t=time.time(), kind=COMMAND_DONE, code=number, text="Done!"))
        assert await agent.until(lambda: agent.events() == {0})

    assert operator.sees(number)["state"] == "waiting"


def test_a_node_that_does_not_come_lets_its_command_expire_and_the_next_may_be_asked(tmp_path: Path) -> None:
    """Meanwhile a second one of its kind is refused with a sentence, one of another kind is not."""
    with serve(tmp_path / "data", {"FETTLE_COMMAND_WAIT_S": "5"}) as server:
        known(server)
        operator = Operator(server)
        number = operator.asks("release_driver", 60)[1]["id"]
        status, problem = operator.asks("release_driver", 90)
        other, _ = operator.asks("take_driver_back")

        assert (status, other) == (409, 201)
        assert problem["detail"] == f"A command of this kind is under way for {NODE}: wait until it is answered or has expired."
        assert eventually(lambda: operator.sees(number)["state"] == "expired", 30)
        assert operator.sees(number)["sent_at"] is None
        assert operator.asks("release_driver", 90)[0] == 201
