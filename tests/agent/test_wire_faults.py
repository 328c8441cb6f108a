"""Four wires, fourteen faults each: what the provider's answer becomes."""

from typing import get_args

import pytest

from agent.model_wires import WIRES, endpoint_of, stream_turn
from remit.rehearsal.scripted_model import ModelWire, Say, ScriptedModel, Use
from remit.rehearsal.wire_faults import RETRY_AFTER_S, FaultKind, put_fault
from remit_agent.models.library import LibraryModel
from remit_agent.models.messages import ModelTurn, TextPart, ToolCallPart
from remit_agent.models.port import RETRIED_KINDS, ErrorKind, ProviderError
from remit_agent.session.calls import accept_turn

TURN = (Say("I will read two files."), Use("read_file", {"path": "a.py"}), Use("read_file", {"path": "b.py"}))
FIRST, SECOND = {"path": "a.py"}, {"path": "b.py"}
HALF = (None, '{"path"')

FAILURES: dict[FaultKind, ErrorKind] = {
    "cut_clean": "truncated",
    "cut_chunked": "connection",
    "silence": "connection",
    "rate_limited": "rate",
    "server_error": "server",
    "overloaded": "overloaded",
    "error_event": "overloaded",
    "junk": "junk",
    "missing_stop": "truncated",
    "empty": "junk",
}
OTHER_FAILURES: dict[tuple[str, FaultKind], ErrorKind] = {
    # Gemini sends a turn as one event: a cut at a byte leaves half of its JSON.
    ("google", "cut_clean"): "junk",
    ("google", "malformed_json"): "junk",
}
TURNS: tuple[FaultKind, ...] = ("length", "doubled_id", "no_id", "malformed_json")
CASES = [(provider, kind) for provider in WIRES for kind in get_args(FaultKind)]


def test_every_fault_is_put_into_every_wire() -> None:
    assert len(CASES) == 56
    assert set(get_args(FaultKind)) == {*FAILURES, *TURNS}


@pytest.mark.parametrize(("provider", "kind"), CASES)
def test_a_fault_of_the_wire_is_a_named_failure_or_a_turn(provider: str, kind: FaultKind) -> None:
    with WIRES[provider](ScriptedModel([TURN, Say("again")])).serve() as wire:
        put_fault(wire, kind)
        patient = LibraryModel(endpoint_of(provider, wire))
        model = LibraryModel(endpoint_of(provider, wire), silence_timeout_s=0.5) if kind == "silence" else patient
        expected = OTHER_FAILURES.get((provider, kind)) or FAILURES.get(kind)
        if expected is None:
            check_turn(kind, *accept_turn(stream_turn(model)[1], ()).parts)
        else:
            with pytest.raises(ProviderError) as raised:
                stream_turn(model)
            assert raised.value.kind == expected
            assert raised.value.kind in RETRIED_KINDS
            assert raised.value.retry_after_s == (RETRY_AFTER_S if kind == "rate_limited" else None)
        assert len(wire.requests) == 1, "the SDK tried again by itself"
        # A fault is of one answer: the model answers the next request.
        assert stream_turn(patient)[1].text == "again"


def check_turn(kind: FaultKind, text: object, *calls: object) -> None:
    assert isinstance(text, TextPart)
    assert text.text == "I will read two files."
    found = [call for call in calls if isinstance(call, ToolCallPart)]
    read = [(call.arguments, call.raw[:7]) for call in found]
    match kind:
        case "doubled_id":
            assert [call.id for call in found] == ["doubled", "doubled_2"]
            assert read == [(FIRST, ""), (SECOND, "")]
        case "no_id":
            assert len({call.id for call in found}) == 2
            assert read == [(FIRST, ""), (SECOND, "")]
        case "length":
            assert read == [(FIRST, "")]
        case _:
            assert read == [(FIRST, ""), HALF]


@pytest.mark.parametrize("provider", WIRES)
def test_a_turn_at_its_limit_says_so(provider: str) -> None:
    with WIRES[provider](ScriptedModel([TURN])).serve() as wire:
        put_fault(wire, "length")
        assert stream_turn(LibraryModel(endpoint_of(provider, wire)))[1].stop == "length"


@pytest.mark.parametrize("provider", WIRES)
def test_a_stream_cut_anywhere_is_no_turn_or_the_whole_turn(provider: str) -> None:
    with WIRES[provider](ScriptedModel([TURN] * 40)).serve() as wire:
        model = LibraryModel(endpoint_of(provider, wire))
        whole = stream_turn(model)[1]
        lengths: list[int] = []
        wire.faults.append(lambda reply: lengths.append(len(reply.body)) or reply)
        stream_turn(model)
        found = [cut_turn(wire, model, lengths[0] * part // 30) for part in range(30)]
    kinds = {kind for kind in found if isinstance(kind, str)}
    assert kinds <= {"truncated", "junk"}
    assert len([kind for kind in found if isinstance(kind, str)]) > 15
    for turn in (turn for turn in found if isinstance(turn, ModelTurn)):
        assert turn.text == whole.text
        assert [call.arguments for call in turn.calls] == [call.arguments for call in whole.calls]


def cut_turn(wire: ModelWire, model: LibraryModel, byte: int) -> ModelTurn | str:
    put_fault(wire, "cut_clean", byte)
    try:
        return stream_turn(model)[1]
    except ProviderError as error:
        return error.kind
