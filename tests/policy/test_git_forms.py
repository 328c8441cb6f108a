"""No git command that changes index, names or settings is let through by its text alone, however it is said."""

import pytest

from redteam.git_forms import COMMANDS, FORMS
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts
from remit.policy.checks.call import check_command
from remit.policy.commands import analyse
from remit.policy.decide import decide


@pytest.mark.parametrize("form", FORMS)
def test_no_text_is_enough(form: str) -> None:
    assert len(COMMANDS) == 82
    bare: list[str] = []
    for command in COMMANDS:
        text = FORMS[form](command)
        call = ToolCall("test", SessionKey("s"), "Bash", "execute", "/w", "c", command=text)
        decision = decide(call, Facts("enforce", containable=True), {"command": check_command})
        # The files that a text names are judged by themselves, before it runs.
        if decision.effect == "allow" and not analyse(text).writes:
            bare.append(text)
    assert bare == []
