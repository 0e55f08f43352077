"""Frames survive the trip, and whatever is no frame is refused by name."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import codec, messages
from wire.codec import CODES, MAX_FRAME_BYTES, WireError
from wire.messages import AbsentChange, Ack, Batch, Event, Hello, Hold, Processes, Refused, Welcome

whole = st.integers(0, 2**53)
cell = st.one_of(st.none(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
name = st.text(max_size=30)
columns = st.lists(st.lists(cell, max_size=4), max_size=4)
batches = st.builds(
    Batch,
    node=name, boot=name, seq=whole, schema=name, t=st.floats(0, 2e9), gpu=columns, host=st.lists(cell, max_size=5),
    processes=st.builds(
        Processes, pid=st.lists(whole, max_size=3), name=st.lists(name, max_size=3), user=st.lists(name, max_size=3), values=columns,
        holds=st.lists(st.builds(Hold, whole, whole, st.none() | whole), max_size=3),
    ),
    absent=st.lists(st.builds(AbsentChange, st.integers(-1, 15), name, st.none() | name), max_size=3),
)  # fmt: skip
events = st.builds(
    Event,
    node=name,
    boot=name,
    seq=whole,
    t=st.floats(0, 2e9),
    kind=name,
    gpu_uuid=st.none() | name,
    code=st.none() | whole,
    text=name,
)
hellos = st.builds(Hello, node=name, boot=name, agent_version=name, gpu_metrics=st.lists(name, max_size=3).map(tuple))
ranges = st.lists(st.tuples(whole, whole), max_size=3)
acks = st.builds(
    Ack,
    boot=name,
    stored=ranges,
    refused=st.lists(st.builds(Refused, whole, st.sampled_from(sorted(CODES))), max_size=2),
    events=ranges,
)


def refusal(frame: bytes | str) -> str | None:
    """The code under which a frame is refused, None when it is taken."""
    try:
        codec.decode_from_agent(frame)
    except WireError as error:
        return error.code
    return None


@given(st.one_of(batches, events, hellos))
def test_what_an_agent_sends_arrives_the_same_in_both_codecs(message: messages.FromAgent) -> None:
    """Msgpack and JSON carry the same Struct."""
    assert codec.decode_from_agent(codec.encode(message)) == message
    assert codec.decode_from_agent(codec.encode_text(message)) == message


@given(st.one_of(acks, st.builds(Welcome, schema=name)))
def test_what_the_server_sends_arrives_the_same_in_both_codecs(message: messages.FromServer) -> None:
    """Msgpack and JSON carry the same Struct."""
    assert codec.decode_from_server(codec.encode(message)) == message
    assert codec.decode_from_server(codec.encode_text(message)) == message


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300)))
def test_junk_is_malformed_and_nothing_else_happens(junk: bytes | str) -> None:
    """Any bytes or text: a message or a WireError of a known code, never another exception."""
    assert refusal(junk) in (None, *CODES)


@given(batches, st.data())
def test_a_cut_or_changed_frame_never_raises_anything_but_a_wire_error(batch: Batch, data: st.DataObject) -> None:
    """One byte changed, or the end cut off."""
    frame = bytearray(codec.encode(batch))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    for mangled in (bytes(frame), bytes(frame[:at])):
        assert refusal(mangled) in (None, "malformed")


def test_a_frame_above_the_limit_is_too_large() -> None:
    """The size is judged before anything is decoded."""
    with pytest.raises(WireError) as caught:
        codec.decode_from_agent(b"\x00" * (MAX_FRAME_BYTES + 1))

    assert caught.value.code == "too_large"


@pytest.mark.parametrize("binary", [True, False])
def test_a_batch_that_does_not_decode_still_says_which_it_was(binary: bool) -> None:
    """A wrong type in a column: the seq is read all the same, so that just this batch is dropped."""
    wrong = {
        "type": "batch",
        "node": "n",
        "boot": "b",
        "seq": 17,
        "schema": "s",
        "t": 1.0,
        "gpu": [["text where numbers belong"]],
    }
    frame = msgspec.msgpack.encode(wrong) if binary else json.dumps(wrong)

    with pytest.raises(WireError) as caught:
        codec.decode_from_agent(frame)

    assert (caught.value.code, caught.value.seq) == ("malformed", 17)


def test_deep_nesting_is_malformed() -> None:
    """A hundred thousand brackets do not end the process."""
    with pytest.raises(WireError, match="malformed"):
        codec.decode_from_agent('{"type":"batch","seq":1,"gpu":' + "[" * 100_000)
    with pytest.raises(WireError, match="malformed"):
        codec.decode_from_agent(b"\x91" * 100_000)


@pytest.mark.parametrize("number", [1 << 63, 1 << 64, 1 << 70, -1])
@pytest.mark.parametrize(
    "message",
    [
        '{"type":"command","name":"release","id":%d}',
        '{"type":"ack","boot":"b","stored":[[0,%d]]}',
        '{"type":"ack","boot":"b","events":[[%d,9]]}',
        '{"type":"ack","boot":"b","refused":[[%d,"busy"]]}',
        '{"type":"ack","boot":"b","events_refused":[[%d,"busy"]]}',
        '{"type":"error","code":"busy","detail":"","seq":%d}',
    ],
)
def test_a_number_of_the_servers_has_an_end_in_both_codecs(message: str, number: int) -> None:
    """JSON has numbers of any size: one that no event and no file can hold is refused where it comes in."""
    frames: list[bytes | str] = [message % number]
    if number < 1 << 64:
        frames.append(msgspec.msgpack.encode(json.loads(message % number)))
    for frame in frames:
        with pytest.raises(WireError, match="malformed"):
            codec.decode_from_server(frame)
    last = codec.decode_from_server(message % ((1 << 63) - 1))
    assert codec.decode_from_server(codec.encode(last)) == last


def test_the_schema_id_changes_with_order_names_and_scope() -> None:
    """Two lists that are not the same have different ids; the same list has the same id everywhere."""
    ids = {
        messages.schema_id(("power_w", "sm_active"), (), ()),
        messages.schema_id(("sm_active", "power_w"), (), ()),
        messages.schema_id(("power_w",), ("mem_used_bytes",), ()),
        messages.schema_id(("power_w", "mem_used_bytes"), (), ()),
    }

    assert len(ids) == 4
    assert messages.schema_id(("power_w",), (), ()) == messages.schema_id(("power_w",), (), ())
