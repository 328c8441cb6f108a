"""Facets of a session: by event, tool, file, decision and sub-agent; the address is the state, JSON has the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from console.console_world import Browser, serving
from console.large_session import SESSION, make_long_session
from gate.driving import machine
from remit.core.record import Body, CallPart, DecisionPart
from remit.gate.gate import Gate
from remit.workspace.place.workspace import locate_workspace

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
PAGE = f"/r/repo/sessions/{SESSION}"


@pytest.fixture
def browser(repository: Path, home: Path) -> Iterator[Browser]:
    make_long_session(repository, home, 120)
    gate = Gate(locate_workspace(repository), machine(home))
    call = CallPart(id="x", name=HOSTILE, effect="read", paths=(f"src/{HOSTILE}",))
    body = Body(
        event="tool_use",
        intent_id="INT-001",
        session_id=SESSION,
        agent_id="helper-1",
        call=call,
        decision=DecisionPart(effect="allow"),
    )
    gate.recorder.append_or_spool([gate.recorder.make_record(body, "claude-code")])
    gate.close()
    with serving(home) as server:
        found = Browser(server)
        found.pair()
        yield found


def test_each_facet_counts_what_the_others_leave(browser: Browser) -> None:
    whole = browser.get(f"{PAGE}.json").data
    assert whole["total"] == 121
    facets = whole["facets"]
    assert facets["decision"] == {"allow": 31, "contain": 10, "deny": 10}
    assert facets["tool"] == {"Edit": 100, "Bash": 20, HOSTILE: 1}
    assert facets["agent"] == {"helper-1": 1}
    assert len(facets["path"]) == 12
    shell = browser.get(f"{PAGE}.json?tool=Bash").data
    assert (shell["total"], shell["filters"]) == (20, {"tool": "Bash"})
    assert shell["facets"]["decision"] == {"contain": 10, "deny": 10}
    assert shell["facets"]["tool"] == facets["tool"]
    both = browser.get(f"{PAGE}.json?tool=Bash&decision=deny").data
    assert (both["total"], {row["badge"] for row in both["rows"]}) == (10, {"denied"})


def test_a_file_is_a_facet_with_windows_and_words(browser: Browser) -> None:
    path = "src/module_39.py"  # not among those with the most records
    found = browser.get(f"{PAGE}.json?{urlencode({'path': path})}").data
    assert found["total"] == found["facets"]["path"][path] > 1
    window = browser.get(f"{PAGE}.json?{urlencode({'path': path, 'from': 1, 'to': 2})}").data
    assert (window["start"], window["end"]) == (1, 2)
    worded = browser.get(f"{PAGE}.json?q=pytest&decision=contain").data
    assert worded["total"] == 10
    assert browser.get(f"{PAGE}.json?q=pytest&decision=deny").data["total"] == 0
    nothing = browser.get(f"{PAGE}?tool=None")
    assert (nothing.status, "No record of this session fits" in nothing.text) == (200, True)


def test_chips_add_and_take_out_one_facet_each(browser: Browser) -> None:
    page = browser.get(f"{PAGE}?tool=Bash&decision=deny").text
    assert f'href="{PAGE}?decision=deny"' in page
    assert f'href="{PAGE}?tool=Bash"' in page
    assert f'href="{PAGE}?tool=Bash&amp;decision=contain"' in page
    assert "<img" not in browser.get(PAGE).text
    assert "\u202e" not in browser.get(PAGE).text
    hostile = browser.get(f"{PAGE}?{urlencode({'tool': HOSTILE})}")
    seen = re.sub(r'<input type="hidden"[^>]*>', "", hostile.text)  # what a form sends stays as it is
    assert (hostile.status, "<img" in hostile.text, "\u202e" in seen) == (200, False, False)
