"""No text of an agent, a repository or a transcript becomes more than text on a page of the console."""

import http.client
import json
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from console.console_world import Browser, serving
from console.hostile_world import SURROGATES, HostileWorld, ShownPage
from corpus.hostile import TEXTS, mark
from remit.console.pages.code import name_in_address

pytestmark = pytest.mark.timeout(600)

FILLERS = "\u034f\u115f\u1160\u3164\uffa0"  # letters without a picture
SHOWN_OF_IDS = 8  # characters: ids of sessions and of sub-agents are shown by their beginning
SHOWN_OF_LONG = 190  # characters: longer texts may end without a sign in lists
CODE_PAGES = 12  # each runs two commands


def list_addresses(world: HostileWorld) -> Iterator[str]:
    """Yield the address of each page about each text of the world, as the pages' own links quote them."""
    base = f"/r/{quote(world.root.name)}"
    yield from ("/", "/approvals", "/settings")
    yield from (f"/approvals/{question}" for question in world.questions)
    for page in ("intents", "sessions", "code", "agents", "changes?wait=1", "restore", "governed", "metrics", "ledger"):
        yield f"{base}/{page}"
    yield f"{base}/code/src"
    yield from (f"{base}/intents/{intent}" for intent in world.intents)
    yield from (f"{base}/sessions/{quote(session)}" for session in world.sessions if session.strip("./"))
    yield from (f"{base}/code/{quote(path)}?l=1" for path in world.files[-CODE_PAGES:])


def is_hidden(character: str) -> bool:
    """Tell whether a character controls, hides or reorders text; line feeds and tabs do not."""
    category = unicodedata.category(character)
    return (category[0] == "C" or category in ("Zl", "Zp") or character in FILLERS) and character not in "\n\t"


def show(text: str) -> str:
    """Return the text as a page shows it, without the brackets around the codes."""
    return "".join(f"U+{ord(c):04X}" if is_hidden(c) else c for c in text)


def squeeze(text: str) -> str:
    """Return the text as a reader sees it: without the brackets of codes, white space as one blank, paths normal."""
    plain = re.sub(r"⟨(U\+[0-9A-F]{4,6})⟩", r"\1", text.replace(" ⏎ ", " "))
    return re.sub(r"\s+", " ", plain).replace("//", "/")


EXPECTED = [squeeze(show(mark(number, text))) for number, text in enumerate(TEXTS.values())]
SHORT_FORMS = [len(show(mark(number, text)[:SHOWN_OF_IDS])) + 1 for number, text in enumerate(TEXTS.values())]


def find_wrong_text(shown: str) -> list[str]:
    """Return what a page shows of a marked text, where that is neither the text nor a shortened text, nor the text
    with backslashes, as messages on the intents file quote it.
    """
    text = squeeze(shown)
    wrong = [f"U+{ord(c):04X} is not shown as its code" for c in sorted(set(filter(is_hidden, text)))]
    for found in re.finditer(r"h(\d\d)z", text):
        expected = EXPECTED[int(found[1])]
        rest = text[found.start() : found.start() + len(expected)]
        same = next((n for n, (a, b) in enumerate(zip(rest, expected, strict=False)) if a != b), len(rest))
        is_short = same <= SHORT_FORMS[int(found[1])] or same >= min(len(expected), SHOWN_OF_LONG)
        if not is_short and rest[same : same + 1] not in ("…", "", "\\"):
            wrong.append(f"{expected[same - 9 : same]!r} goes on with {rest[same : same + 30]!r}")
    return wrong


def find_faults(html: str, allowed: set[tuple[str, str]], bases: tuple[str, ...]) -> list[str]:
    """Return what is wrong with a page: elements that are none of the console's, foreign links, texts that differ."""
    page = ShownPage(html)
    faults = [f"element {each}" for each in sorted(page.elements - allowed)]
    faults += [
        f"script {html[at.start() :][:60]}" for at in re.finditer(r"<script(?! type=.module. src=./static/)", html)
    ]
    for tag, name, value in page.values:
        if name in ("href", "src", "action") and not re.match(r"/(?!/)|\?|#|$", value):
            faults.append(f"foreign link {tag} {name} {value[:80]}")
        if name == "href" and value.startswith("/r/") and not value.startswith(bases):
            faults.append(f"the link {value[:80]} leads to no repository")
    return faults + find_wrong_text(page.text)


@pytest.mark.live
def test_every_page_shows_hostile_texts_as_texts(tmp_path: Path, home: Path) -> None:
    plain = HostileWorld(tmp_path, home, is_plain=True).build()
    world = HostileWorld(tmp_path, home).build()
    faults: dict[str, list[str]] = {}
    allowed = {("span", ""), ("span", "class"), ("span", "title")}  # a character's code
    base = f"/r/{quote(world.root.name)}/"
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        for address in list_addresses(plain):
            page = browser.get(address)
            assert page.status == 200, (address, page.text)
            allowed |= ShownPage(page.text).elements
        for address in list_addresses(world):
            page = browser.get(address)
            path, _, query = address.partition("?")
            twin = browser.get("/index.json" if path == "/" else f"{path}.json?{query}")
            assert json.loads(twin.body)["schema_version"] == 1, address
            found = find_faults(page.text, allowed, (base, "/r/plain/"))
            if found or (page.status, twin.status) != (200, 200):
                faults[address] = [f"{page.status}, its JSON {twin.status}", *found]
        # As it is, since scripts send it back: of a page, and of a card, whose id both repositories have.
        htmls = [browser.get(address).text for address in (f"{base}sessions", "/approvals/q000")]
        own, *shown = [{v for _, name, v in ShownPage(html).values if name == "data-repository"} for html in htmls]
        assert own == {world.root.name}
        assert shown[0] <= {plain.root.name, world.root.name}
        links = {value for _, name, value in ShownPage(browser.get(f"{base}code/src").text).values if name == "href"}
        sessions = {value for _, name, value in ShownPage(browser.get(f"{base}sessions").text).values if name == "href"}
    assert faults == {}, json.dumps({address[-90:]: found[:5] for address, found in faults.items()}, indent=1)
    assert {f"{base}code/{quote(name_in_address(path))}" for path in world.files} <= links
    assert {f"{base}sessions/{quote(session)}" for session in world.sessions} <= sessions


def test_nothing_of_a_decided_action_is_cut(tmp_path: Path, home: Path) -> None:
    world = HostileWorld(tmp_path, home)
    world.govern()
    world.ask()
    texts = world.list_texts(without=SURROGATES)
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        for question, text in zip(world.questions, texts, strict=True):
            html = browser.get(f"/approvals/{question}").text
            card = ShownPage(html[html.index("<article") : html.index("</article>")])
            assert squeeze(show(text)) in squeeze(card.text), text[:80]
            assert find_wrong_text(card.text) == [], text[:80]


def test_names_that_are_no_text_and_names_like_twins_have_their_pages(tmp_path: Path, home: Path) -> None:
    world = HostileWorld(tmp_path, home, is_plain=True)
    world.govern()
    for name in (b"bad\xff.py", b"package.json", b"a\nb.py"):
        (world.root / "src").mkdir(exist_ok=True)
        Path(os.fsdecode(os.fsencode(world.root / "src") + b"/" + name)).write_text("one\n")
    world.commit()
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        folder = ShownPage(browser.get("/r/plain/code/src").text)
        root = ShownPage(browser.get("/r/plain/code").text)
        values = (*root.values, *folder.values)
        links = [value for _, name, value in values if name == "href" and re.search(r"/code/(%22)?src/", value)]
        assert len(links) == 3
        for link in links:
            assert browser.get(link).status == 200, link
            assert browser.get(f"{link}.json").data["total"] == 1, link


def test_a_stream_carries_the_names_of_repositories_in_frames_of_its_own(tmp_path: Path, home: Path) -> None:
    world = HostileWorld(tmp_path, home)
    world.govern()
    world.ask()
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
        connection.request("GET", "/live", headers={"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"})
        response = connection.getresponse()
        lines: list[str] = []
        while not any(world.questions[-1] in line for line in lines):
            lines.append(response.readline().decode().rstrip("\n"))
        connection.close()
    assert {line.partition(":")[0] for line in lines if line} <= {"retry", "event", "data", "id"}
    assert all(re.fullmatch(r"id: [\w=-]+", line) for line in lines if line.startswith("id"))
    assert {line for line in lines if line.startswith("event")} == {"event: hello", "event: state"}
    _, *states = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert list(states[-1]["log_bytes"]) == [world.root.name]
    assert sorted(states[-1]["questions"]) == world.questions
