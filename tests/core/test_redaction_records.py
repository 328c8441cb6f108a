"""No secret reaches a line, whatever field carries it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.secret_corpus import CORPUS, SECRETS
from gate.driving import governed, machine
from remit.core.record import (
    Body,
    CallPart,
    Chain,
    Content,
    Contributor,
    Conversation,
    DecisionPart,
    MutatedFile,
    MutationClass,
    Range,
    Related,
    TracedFile,
    encode_record,
)
from remit.gate.gate import Gate
from remit.gate.records.recorder import Recorder

PLACES = (
    "session_id", "intent_id", "agent_id", "trace_id", "branch", "call.id", "call.name", "call.command", "call.paths",
    "decision.rules", "decision.grant", "decision.approved_by", "class.declared", "files.path", "files.sha256",
    "violation.error", "violation.key", "violation.deep", "result.summary", "detail.reason", "detail.notes",
    "detail.key", "agent", "traced.path", "traced.url", "traced.model", "traced.related", "traced.range",
)  # fmt: skip


@pytest.fixture
def recorder(repository: Path, home: Path) -> Recorder:
    return Gate.open(governed(repository), machine(home)).recorder


def body_with(place: str, text: str) -> Body:
    """A body with `text` in one place."""

    def here(name: str) -> str:
        return text if name == place else "x"

    nested: dict[str, Any] = {"error": here("violation.error"), "list": [{"deep": (here("violation.deep"),)}]}
    return Body(
        event="denied",
        session_id=here("session_id"),
        intent_id=here("intent_id"),
        agent_id=here("agent_id"),
        trace_id=here("trace_id"),
        branch=here("branch"),
        call=CallPart(
            id=here("call.id"), name=here("call.name"), command=here("call.command"), paths=(here("call.paths"), "y")
        ),
        decision=DecisionPart(
            rules=(here("decision.rules"),), grant=here("decision.grant"), approved_by=here("decision.approved_by")
        ),
        mutation_class=MutationClass(declared=here("class.declared")),
        files=(MutatedFile(path=here("files.path"), after=Content(sha256=here("files.sha256"))),),
        violation={**nested, here("violation.key"): 1},
        result={"summary": here("result.summary")},
        detail={"reason": here("detail.reason"), "notes": [here("detail.notes")], here("detail.key"): True},
    )


def traced_with(place: str, text: str) -> TracedFile:
    def here(name: str) -> str:
        return text if name == place else "x"

    conversation = Conversation(
        url=here("traced.url"),
        contributor=Contributor(model_id=here("traced.model")),
        ranges=(Range(content_hash=here("traced.range")),),
        related=(Related(value=here("traced.related")),),
    )
    return TracedFile(path=here("traced.path"), conversations=(conversation,))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.sampled_from(PLACES),
    pair=st.sampled_from(list(CORPUS.values())),
    around=st.sampled_from(["{}", "a {} b", "'{}'"]),
)
def test_no_secret_of_the_corpus_reaches_a_line(
    recorder: Recorder, place: str, pair: tuple[str, str], around: str
) -> None:
    text, secret = pair
    agent = around.format(text) if place == "agent" else "claude-code"
    whole = around.format(text)
    made = recorder.make_record(body_with(place, whole), agent, (traced_with(place, whole),))
    line = encode_record(made, Chain(log="l", seq=0, prev="p"))
    assert json.dumps(secret)[1:-1].encode() not in line
    assert b"[redacted]" in line


def test_a_teams_pattern_is_masked_in_records(repository: Path, home: Path) -> None:
    governed(repository)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text('mode = "enforce"\n[redact]\npatterns = ["ACME-[0-9]{4}"]\n')
    recorder = Gate.open(repository, machine(home)).recorder
    made = recorder.make_record(
        Body(event="recovery", intent_id=None, session_id=None, detail={"reason": "see ACME-1234"})
    )
    assert made.body.detail == {"reason": "see [redacted]"}


def test_a_bad_pattern_denies_changes(repository: Path, home: Path) -> None:
    governed(repository)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text('mode = "enforce"\n[redact]\npatterns = ["(a+)+"]\n')
    error = Gate.open(repository, machine(home)).rules.config_error
    assert error is not None
    assert "'(a+)+'" in error


def test_the_corpus_holds_each_kind() -> None:
    assert len(SECRETS) > 20
