"""What holds for every page of the console's table: its forms, its empty state, its API entry; and for its colours."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import schemathesis.checks
from hypothesis import HealthCheck, given, settings

from conftest import run_git
from console.console_world import Browser, serving
from console.hostile_world import ShownPage
from console.test_console import addresses
from forked_commands import run_command
from gate.driving import Agent, governed, records
from remit.console.pages.navigation import NAVIGATION
from remit.console.render import FOLDER, open_templates
from remit.console.routes import PAGES, name_twin
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

STYLES = (FOLDER / "static" / "console.css").read_text()
ADDRESS_NAMES = ("href", "src", "action", "formaction", "poster", "data")
CHECKED = ("not_a_server_error", "response_schema_conformance", "status_code_conformance")
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
AUTHOR_FIELDS = ("origin", "agent", "model", "session_id", "intent_id", "grade", "record")
SAME: tuple[tuple[str, str, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (
        "/index.json",
        "status",
        lambda page: [(each["mode"], each["intents_open"]) for each in page["repositories"]],
        lambda told: [(told["mode"], told["intents"]["open"])],
    ),
    ("{base}/governed.json", "status", lambda page: page["status"], lambda told: told),
    ("{base}/governed.json", "approvals list", lambda page: page["grants"], lambda told: told["grants"]),
    ("{base}/governed.json?suggest=1", "mode suggest", lambda page: page["suggestion"], lambda told: told),
    (
        "{base}/governed/simulate.json?command=ls&intent=INT-001",
        "policy test --command ls --intent INT-001",
        lambda page: page["answer"],
        lambda told: told,
    ),
    ("{base}/restore.json", "restore list", lambda page: page["points"], lambda told: told),
    ("{base}/metrics.json", "stats", lambda page: page["data"], lambda told: told),
    ("{base}/intents.json", "intent list", lambda page: [row["intent"] for row in page["rows"]], lambda told: told),
    ("{base}/intents/INT-001.json", "intent show INT-001", lambda page: page["intent"], lambda told: told),
    (
        "{base}/sessions/{session}.json?form=feed",
        "session {session}",
        lambda page: [
            step
            for turn in page["story"]["turns"]
            for step in ([turn["prompt"]] if turn["prompt"] else []) + [node["step"] for node in turn["nodes"]]
        ],
        lambda told: told["steps"],
    ),
    (
        "{base}/ledger.json",
        "log --limit 100",
        lambda page: [row["id"] for row in page["rows"]],
        lambda told: [record["id"] for record in told],
    ),
    (
        "{base}/ledger.json?verify=1",
        "ledger verify",
        lambda page: page["chain"],
        lambda told: {name: told[name] for name in ("records", "witnessed", "unwitnessed", "findings")},
    ),
    ("{base}/records/{record}.json", "show {record}", lambda page: page["peek"]["record"], lambda told: told),
    (
        "{base}/code/src/app.py.json",
        "blame src/app.py",
        lambda page: [
            (line, *(block[name] for name in AUTHOR_FIELDS))
            for block in page["blocks"]
            for line in range(block["start"], block["end"] + 1)
        ],
        lambda told: [(line["line"], *(line[name] for name in AUTHOR_FIELDS)) for line in told["lines"]],
    ),
    ("{base}/code/src/app.py.json?l=1", "why src/app.py:1", lambda page: page["why"], lambda told: told),
)
"""What a page's JSON has of a command's `--json`, and how to find it in both. Changes, and an open question, have tests
of their own.
"""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    found.write("docs/a.md", "not in the scope\n")
    found.shell("echo more >> src/app.py")
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


def test_every_page_is_whole_a_part_and_data_and_nothing_in_it_runs_or_leads_away(
    agent: Agent, browser: Browser
) -> None:
    described = json.loads(browser.get("/openapi.json").body)
    for page, address in zip(PAGES, addresses(agent), strict=True):
        template = read_template(page.template)
        html = browser.get(address)
        part = browser.get(address, Remit_Part=name_part(template))
        twin = browser.get("/index.json" if address == "/" else f"{address}.json")
        assert (html.status, part.status, twin.status) == (200, 200, 200), address
        assert "<html" not in part.text, address
        assert find_what_runs_or_leads_away(html.text) == [], address
        main = html.text[html.text.index("<main") : html.text.index("</main>")]
        assert len(ShownPage(main).text.split()) > 3, address
        entry = described["paths"][name_twin(page.url)]["get"]
        envelope = entry["responses"]["200"]["content"]["application/json"]["schema"]
        assert envelope["required"] == list(json.loads(twin.body)), address
    assert browser.get("/", Remit_Part="nowhere").status == 404
    writes = {path: item["post"] for path, item in described["paths"].items() if "post" in item}
    assert writes.keys() >= {"/pair", "/approvals/{question}/answer", "/unpair/{browser}", "/settings"}
    assert all(write["security"] == [{"cookie": [], "proof": []}] for write in writes.values())


def read_template(name: str) -> str:
    templates = open_templates()
    assert templates.loader
    return templates.loader.get_source(templates, name)[0]


def name_part(template: str) -> str:
    """The name of a part of each page: the whole of it, or the first of those that it has."""
    blocks = re.findall(r"{% block (\w+)", template)
    return "main" if "main" in blocks else "answer" if "answer.html" in template else blocks[0]


def find_what_runs_or_leads_away(html: str) -> list[str]:
    page = ShownPage(html)
    found = [f"{tag} {name}" for tag, name in page.elements if tag == "style" or name == "style" or name[:2] == "on"]
    found += [value for _, name, value in page.values if name in ADDRESS_NAMES and re.match(r"\w+:|//", value)]
    scripts = re.sub(r'<script type="module" src="/static/\w+/\w+\.js"></script>', "", html)
    return found + re.findall(r"<script.*", scripts)


def test_an_empty_repository_s_pages_say_what_to_do(repository: Path, home: Path) -> None:
    governed(repository, intents='version: "1.0"\nactive_intents: []\n')
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        for page in PAGES:
            is_form = page.template in ("intent_form.html", "scope.html")
            if "{" not in page.url.replace("{repository}", "") and not is_form:
                html = browser.get(page.url.replace("{repository}", "repo"))
                assert html.status == 200, (page.url, html.text)
                needs_words = page.nav not in ("settings", "code", "metrics", "coverage", "ledger", "changes", "search")
                assert 'class="empty"' in html.text or not needs_words, page.url


def test_the_data_of_a_page_are_those_of_the_command(agent: Agent, browser: Browser) -> None:
    first = records(agent.cwd, "mutation")[0]
    names = {"base": f"/r/{agent.cwd.name}", "session": agent.session, "record": first["id"]}
    for address, command, find_in_page, find_in_answer in SAME:
        page = browser.get(address.format(**names))
        told = json.loads(run_command([*command.format(**names).split(), "--json"], agent.cwd).stdout)["data"]
        assert find_in_page(page.data) == find_in_answer(told), (address, command)


@pytest.mark.live
def test_strangers_requests_break_nothing_and_write_nothing(
    agent: Agent, server: ConsoleServer, browser: Browser
) -> None:
    """Requests made up from the API's own description: no answer is a defect, and each is as described."""
    headers = {"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"}
    app = server.server.config.app
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers)
    checks: list[Any] = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKED]
    for operation in (found.ok() for found in schema.get_all_operations()):

        @given(case=operation.as_strategy())
        @settings(max_examples=12, database=None, derandomize=True, suppress_health_check=[*SLOW])
        def ask(case: Any) -> None:
            response = case.call(headers=headers)
            case.validate_response(response, checks=checks)
            if case.method == "POST":
                assert response.status_code in (401, 403)

        ask()


# -- colours ---------------------------------------------------------------------------------------------------


def read_colours(theme: int) -> dict[str, str]:
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLES)
    return {name: (light, dark)[theme] for name, light, dark in pairs}


def measure_luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def measure_contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours. Source: WCAG 2.2, relative luminance, read 2026-11."""
    dark, light = sorted((measure_luminance(first), measure_luminance(second)))
    return (light + 0.05) / (dark + 0.05)


GROUNDS = ("bg", "surface", "sunken", "raised", "hover")
TEXTS_ON_GROUNDS = ("ink", "ink-2", "ink-3", "accent")


def list_pairs() -> list[tuple[str, str]]:
    """Return (text, ground) of each rule that sets both, and of the texts that stand on every ground."""
    found = set(product(TEXTS_ON_GROUNDS, GROUNDS)) | {("ink", "accent-soft"), ("ink-3", "surface")}
    for rule in re.findall(r"\{([^{}]*)\}", STYLES):
        ground = re.search(r"background(?:-color)?: var\(--([\w-]+)\)", rule)
        text = re.search(r"(?<![-\w])color: var\(--([\w-]+)\)", rule)
        if ground and text:
            found.add((text[1], ground[1]))
    return sorted(found)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_are_readable_on_their_grounds(theme: int) -> None:
    colours = read_colours(theme)
    assert len(colours) > 25
    ratios = {(text, ground): measure_contrast(colours[text], colours[ground]) for text, ground in list_pairs()}
    assert {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < 4.5} == {}
    edges = {ground: measure_contrast(colours["edge"], colours[ground]) for ground in GROUNDS}
    assert {ground: round(ratio, 2) for ground, ratio in edges.items() if ratio < 3} == {}


def test_colours_stand_in_the_tokens_alone() -> None:
    tokens, _, rest = STYLES.partition("@layer base {")
    assert "--bg" in tokens
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|rgb\((?!0 0 0 /)[^)]*\)|hsl|oklch", rest) == []


def test_each_entry_on_the_left_has_a_key_of_its_own_which_the_list_of_keys_names(browser: Browser) -> None:
    entries = {(key, words) for group in NAVIGATION for _, words, _, key, _ in group}
    text = browser.get("/r/repo/intents").text
    assert len({key for key, _ in entries}) == len(entries)
    assert set(re.findall(r"<kbd>g</kbd> <kbd>(.)</kbd></dt><dd>(\w+)</dd>", text)) == entries
    assert set(re.findall(r' data-go="(.)"', text)) == {key for key, _ in entries}
