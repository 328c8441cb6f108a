"""The console over a real socket: pages, their JSON, who may read, who may decide."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Browser, keep_run, open_page, serving
from forked_commands import run_command
from gate.driving import Agent, governed, records
from remit.console.pages.code import Code, CodeLine, OriginBlock
from remit.console.pages.page import PageRequest
from remit.console.render import render_page
from remit.console.routes import PAGES
from remit.console.server import ConsoleServer
from remit.provenance.why.explanation import Cause, Explanation, Talk, Utterance
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import WAIT_S, wait_until

HOSTILE = "<img src=x onerror=alert(1)>\u202e{{ 7*7 }}\x1b[31m</script>"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    found.write("docs/a.md", "not in the scope\n")
    found.write(f"src/{HOSTILE.replace('/', '_')}.py", f"{HOSTILE}\n")
    found.shell(f"echo '{HOSTILE}' >> src/app.py")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def addresses(agent: Agent) -> list[str]:
    """An address of each page in the table, for the fixture's repository."""
    record = str(records(agent.cwd, "mutation")[0]["id"])
    values = {"repository": agent.cwd.name, "intent": "INT-001", "session": agent.session, "record": record}
    values |= {"path": "src/app.py", "question": "none", "point": "latest", "run": keep_run(agent.cwd, HOSTILE)}
    return [re.sub(r"\{([a-z]+)(?::path)?\}", lambda match: values[match[1]], page.url) for page in PAGES]


def test_every_page_has_html_and_a_json_twin_and_neither_runs_what_it_shows(agent: Agent, browser: Browser) -> None:
    for address in addresses(agent):
        page = browser.get(address)
        assert page.status == 200, (address, page.text[:2000])
        assert "<img" not in page.text, address
        assert "\u202e" not in page.text, address
        assert "\x1b" not in page.text, address
        assert not re.search(r"\s(style|on[a-z]+)=", re.sub(r"&lt;.*?&gt;", "", page.text)), address
        assert not re.search(r'(?:src|href)="(?!/|\?|#|")', page.text.replace("?from", "?")), address
        twin = browser.get("/index.json" if address == "/" else f"{address}.json")
        assert (twin.status, json.loads(twin.body)["schema_version"]) == (200, 1), address


def test_headers_forbid_inline_script_style_and_framing(browser: Browser) -> None:
    policy = browser.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


def test_only_the_console_s_own_name_is_answered(server: ConsoleServer, browser: Browser) -> None:
    for host in (
        "evil.com",
        f"127.0.0.1:{server.port}",
        f"localhost:{server.port}",
        browser.host.replace("remit", "x"),
    ):
        assert browser.get("/", Host=host).status == 421, host
    assert browser.get("/", Sec_Fetch_Site="cross-site").status == 403
    assert browser.get("/live", Sec_Fetch_Site="same-site").status == 403


def test_nobody_reads_without_pairing(agent: Agent, server: ConsoleServer) -> None:
    stranger = Browser(server)
    for address in (*addresses(agent), "/live"):
        assert stranger.get(address).status == 401, address
    stranger.cookie = "guess"
    assert stranger.get("/").status == 401


def test_a_link_pairs_once_and_for_a_minute(agent: Agent, server: ConsoleServer) -> None:
    secret = server.pairing.make_link_secret()
    assert Browser(server).pair(secret).status == 200
    assert Browser(server).pair(secret).status == 403
    late = server.pairing.make_link_secret()
    later = server.clock.now() + 61
    server.pairing.clock = lambda: later
    assert Browser(server).pair(late).status == 403
    assert [str(record["metadata"]["dev.remit"]["name"]) for record in records(agent.cwd, "console_paired")] == ["test"]


def test_a_restarted_console_knows_its_browsers_and_its_address(agent: Agent) -> None:
    with serving(agent.home) as first:
        browser = Browser(first)
        browser.pair()
        name = first.guard.origin.rpartition(":")[0]
    with serving(agent.home) as second:
        browser.server = second
        assert browser.get("/").status == 200
        assert second.guard.origin.rpartition(":")[0] == name


class Asked:
    """An agent that waits inside its hook for a person."""

    def __init__(self, agent: Agent, path: str = "docs/b.md") -> None:
        self.reply: dict[str, Any] | None = None
        fields = {"file_path": str(agent.cwd / path), "content": f"{HOSTILE}\n"}

        def ask() -> None:
            self.reply = agent.ask("Write", **fields)

        self.thread = threading.Thread(target=ask)
        self.thread.start()

    @property
    def decision(self) -> str:
        self.thread.join(WAIT_S)
        assert self.reply is not None, "the agent still waits"
        return str(self.reply.get("permissionDecision", "allow"))


@pytest.fixture
def watched(browser: Browser) -> Iterator[Browser]:
    """The browser, with a page open: only then agents ask."""
    with open_page(browser):
        yield browser


def wait_for_card(browser: Browser) -> dict[str, Any]:
    found = dict[str, Any]()
    wait_until(lambda: found.update(browser.get("/approvals.json").data["card"] or {}) or found, "no question came")
    return found


def body_for(card: dict[str, Any], **fields: Any) -> dict[str, Any]:
    sha = card["shown_sha256"]
    return {"repository": card["repository"], "allow": True, "shown_sha256": sha, "typed": card["typed"], **fields}


def test_a_signed_yes_releases_the_agent_once(agent: Agent, watched: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(watched)
    listed = json.loads(run_command(["approvals", "list", "--json"], agent.cwd).stdout)["data"]["questions"]
    assert listed == [{**card["question"], "status": "open"}], "the page's question is the command's"
    assert card["question"]["diff"].count("img src=x") == 1
    assert "<img" not in watched.get("/approvals").text
    path = f"/approvals/{card['question']['id']}/answer"
    assert watched.post(path, body_for(card, shown_sha256="0" * 64)).status == 409
    assert watched.post(path, body_for(card)).status == 200
    assert asked.decision == "allow"
    assert watched.post(path, body_for(card)).status == 409
    answers = [record["metadata"]["dev.remit"]["approval"] for record in records(agent.cwd, "approval_answered")]
    assert [(answer["answer"], answer["by"]) for answer in answers] == [("allow", "person")]
    assert answers[0]["action"] == "Write: docs/b.md", "the file as the repository names it"


def test_a_no_with_words_reaches_the_model(agent: Agent, watched: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(watched)
    path = f"/approvals/{card['question']['id']}/answer"
    assert watched.post(path, body_for(card, allow=False, words="docs are frozen")).status == 200
    assert asked.decision == "deny"
    assert asked.reply is not None
    assert "docs are frozen" in str(asked.reply)


def test_a_yes_for_the_intent_leaves_a_grant(agent: Agent, watched: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(watched)
    path = f"/approvals/{card['question']['id']}/answer"
    assert watched.post(path, body_for(card, extent="intent", rule="docs/*.md")).data["rule"] == "docs/*.md"
    assert asked.decision == "allow"
    assert (
        agent.ask("Write", file_path=str(agent.cwd / "docs" / "c.md"), content="x\n").get("permissionDecision") is None
    )


def test_what_is_not_signed_by_this_browser_decides_nothing(agent: Agent, watched: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(watched)
    path = f"/approvals/{card['question']['id']}/answer"
    wanted = body_for(card)
    body = json.dumps(wanted).encode()
    good, then = watched.proof("POST", path, body), watched.server.clock.now() - 90
    other = Browser(watched.server)
    other.id = watched.id
    refused = {
        "no proof": watched.post(path, wanted, proof=""),
        "another key": watched.post(path, wanted, proof=other.proof("POST", path, body)),
        "another body": watched.post(path, body_for(card, words="x"), proof=good),
        "another path": watched.post("/unpair/x", wanted, proof=good),
        "too old": watched.post(path, wanted, proof=watched.proof("POST", path, body, at=then)),
        "another origin": watched.post(path, wanted, Origin="http://evil.com"),
        "no origin": watched.ask("POST", path, body, Remit_Proof=good),
    }
    assert {name: answer.status for name, answer in refused.items()} == {
        **dict.fromkeys(refused, 401),
        "another origin": 403,
        "no origin": 403,
    }
    assert asked.reply is None
    assert watched.post(path, wanted, proof=good).status == 200
    assert watched.post(path, wanted, proof=good).status == 409
    assert asked.decision == "allow"


ATTEMPT = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=90)
connection.request("POST", sys.argv[2], sys.argv[3], {"Host": sys.argv[4], "Origin": "http://" + sys.argv[4],
    "Cookie": sys.argv[5], "Remit-Proof": sys.argv[6]})
print(connection.getresponse().status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_process_below_an_agent_decides_nothing_and_its_attempt_is_recorded(
    agent: Agent, watched: Browser, tmp_path: Path
) -> None:
    """Even with the browser's own key and cookie: a program named `claude` started the one that asks."""
    asked = Asked(agent)
    card = wait_for_card(watched)
    path = f"/approvals/{card['question']['id']}/answer"
    body = json.dumps(body_for(card)).encode()
    claude = tmp_path / "claude"
    claude.write_text(
        f"import subprocess, sys\nsys.exit(subprocess.run([{sys.executable!r}, *sys.argv[1:]]).returncode)\n"
    )
    words = [str(watched.server.port), path, body.decode(), watched.host, f"remit_read={watched.cookie}"]
    command = [sys.executable, str(claude), "-c", ATTEMPT, *words, watched.proof("POST", path, body)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "403"
    assert asked.reply is None
    denied = records(agent.cwd, "denied")[-1]["metadata"]["dev.remit"]
    assert "is for a person: claude (process " in denied["violation"]["error"]
    assert watched.post(path, body_for(card, allow=False)).status == 200
    assert asked.decision == "deny"


def test_without_an_open_page_nobody_is_asked(agent: Agent, browser: Browser) -> None:
    assert Asked(agent).decision == "deny"


def test_broken_places_have_a_page_with_the_next_step(agent: Agent, browser: Browser) -> None:
    name = agent.cwd.name
    for address, status in (
        ("/r/nowhere/code", 404),
        (f"/r/{name}/code/no/such.py", 404),
        (f"/r/{name}/code/src/app.py?l=7-3", 404),
        (f"/r/{name}/code/src/app.py?l=x", 400),
        (f"/r/{name}/sessions/none", 404),
        (f"/r/{name}/records/none", 404),
        (f"/r/{name}/sessions/{agent.session}?from=-1", 400),
        ("/no/such/page", 404),
    ):
        found = browser.get(address)
        assert (found.status, "Traceback" in found.text) == (status, False), address
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text("active_intents: [\n")
    (agent.cwd / ".orchestration" / "remit.toml").write_text("mode = [\n")
    for address in addresses(agent):
        assert browser.get(address).status in (200, 404, 503), address


def test_a_line_with_a_known_conversation_says_what_was_asked(agent: Agent, server: ConsoleServer) -> None:
    talk = Talk(prompt=f"Greet {HOSTILE}", said=(Utterance("assistant", "I greet."),))
    cause = Cause("r1", "2026-11-27T00:00:00Z", agent="remit", intent_id="INT-001", talk=talk)
    block = OriginBlock(1, 1, "ai", "remit", None, None, "INT-001", "exact", "r1", "c")
    line = CodeLine(1, "x", [], block, starts_block=True)
    why = Explanation("a.py", (), (cause,))
    code = Code("a.py", False, lines=[line], total=1, shares={"ai": 100}, blocks=[block], chosen=(1, 1), why=why)
    page = next(page for page in PAGES if page.template == "code.html")
    repository = server.console.repositories.list_all()[0]
    asked = PageRequest(server.console.repositories, repository, {}, {})
    html = render_page(page.template, server.console.make_values(page, asked, code))
    assert "Greet &lt;img" in html
    assert "I greet." in html


def test_an_unpaired_browser_s_stream_ends_and_nobody_is_asked_any_more(agent: Agent, watched: Browser) -> None:
    assert watched.post(f"/unpair/{watched.id}", {}).status == 200
    wait_until(lambda: not watched.server.is_in_use)
    assert watched.get("/").status == 401
