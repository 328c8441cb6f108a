"""Draw the pictures of the console from a real run: `python docs/console_pictures.py [FOLDER]`; by default into
`docs/assets/`.

Two scripted agents work in a throw-away repository: each of their calls goes through the real hook, and the pages are
those of the real daemon, in Chromium. A picture has few colours, so that it stays small.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from remit.cli.demo import ScriptedAgent, call_remit, run_remit, use_repository

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
WAIT_MS = 60_000
COLOURS = 256
DESK, PHONE = (1280, 860), (390, 844)

TOKENS = '''\
"""Session cookies of the shop."""

import time

LIFETIME_S = 3600


def make_cookie(user):
    return f"{user}:{int(time.time()) + LIFETIME_S}"


def read_cookie(cookie):
    user, _, expires = cookie.partition(":")
    return user if float(expires) > time.time() else None
'''
JWT = '''\
"""Signed tokens of the shop."""

import base64
import hashlib
import hmac
import json
import time

LIFETIME_S = 3600


def sign(claims, key):
    """Return the claims as a token; it ends after an hour."""
    body = encode(json.dumps({**claims, "exp": time.time() + LIFETIME_S}).encode())
    return f"{body}.{encode(hmac.new(key, body.encode(), hashlib.sha256).digest())}"


def verify(token, key):
    """Return the claims of a token that is ours and not over; None for any other."""
    body, _, mark = token.partition(".")
    ours = encode(hmac.new(key, body.encode(), hashlib.sha256).digest())
    if mark != ours:
        return None
    claims = json.loads(decode(body))
    return claims if claims["exp"] > time.time() else None


def encode(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
'''
BY_HAND = "\n\nCLOCK_SKEW_S = 30  # ops asked for it\n"
TESTS = """\
from src.auth.tokens import sign, verify


def test_a_token_is_verified():
    assert verify(sign({"sub": "ann"}, b"k"), b"k")["sub"] == "ann"


def test_a_strange_token_is_refused():
    assert verify("x.y", b"k") is None
"""
LOGIN = "def login(request):\n    return make_cookie(request.user)\n"
LIMITS = '"""Limits of the shop."""\n\nTRIES = 5\nWAIT_S = 60\n'
API = "# API\n\n## Log in\n\n`POST /login` sets a session cookie.\n\n## Orders\n\n`GET /orders` lists the orders.\n"
HOOKS = "# Webhooks\n\nEach order sends one `POST` with its id and its state.\n"
FILES = {
    "src/auth/tokens.py": TOKENS,
    "src/auth/keys.py": "KEYS = {}\n",
    "src/api/login.py": LOGIN,
    "src/api/orders.py": "def list_orders(request):\n    return []\n",
    "tests/auth/test_tokens.py": "def test_nothing_yet():\n    pass\n",
    "docs/api.md": API,
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n',
    ".gitignore": "__pycache__/\n",
}
INTENTS = (
    ("JWT authentication", "src/auth/**", "tests/auth/**", "no new dependency", "a token of another key is refused"),
    ("Document the webhooks", "docs/hooks.md", "docs/hooks/**", "no internal address", "each event has an example"),
    ("Limit failed logins", "src/api/**", "tests/api/**", "the API stays as it is", "the sixth try in a minute waits"),
)


class CodexAgent(ScriptedAgent):
    """The same stand-in, with the words of Codex."""

    def hook(self, event: str, **fields: object) -> dict[str, object]:
        words = {"session_id": self.session, "cwd": str(self.repository), "model": "gpt-5.5", "turn_id": "turn-1"}
        kind = {"PreToolUse": "pre", "PostToolUse": "post"}.get(event, "note")
        given = json.dumps({**words, "hook_event_name": event, **fields}).encode()
        out = call_remit(self.repository, self.environment, "hook", "codex", kind, given=given)
        return json.loads(out).get("hookSpecificOutput", {}) if out else {}

    def add_file(self, name: str, content: str) -> None:
        """Add a file by a patch, if the hook lets it."""
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {self.repository / name}\n{lines}*** End Patch"
        call = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_use_id": f"call-{name}"}
        if self.hook("PreToolUse", **call).get("permissionDecision") != "deny":
            (self.repository / name).write_text(content)
            self.hook("PostToolUse", **call, tool_response="Success.")


class Shot(Struct, frozen=True):
    """A picture: its name, an address, what has to be there, and keys or clicks before it is taken."""

    name: str
    address: str
    sign: str
    click: str = ""
    then: str = ""
    theme: str = "light"
    size: tuple[int, int] = DESK


def make_world(home: Path) -> tuple[Path, dict[str, str], ScriptedAgent, CodexAgent]:
    """Let two agents and a person work on a branch of a shop."""
    repository, environment = use_repository(home, name="shop")
    shutil.rmtree(repository / "src")
    for name, content in FILES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(content)
    git = Git(repository, environment)
    run_remit(repository, environment, "intent", "delete", "INT-001", quiet=True)
    for title, one, other, constraint, criterion in INTENTS:
        words = ("--scope", one, "--scope", other, "--constraint", constraint, "--criterion", criterion)
        run_remit(repository, environment, "intent", "new", title, *words, quiet=True)
    for agent in ("claude", "codex"):
        write_program(home / "bin" / agent)
    environment["PATH"] = f"{home / 'bin'}:{environment['PATH']}"
    run_remit(repository, environment, "init", "--yes", "--mode", "enforce", quiet=True)
    git.commit("The shop")
    git.run("switch", "-qc", "feature/jwt")
    claude, codex = ScriptedAgent(repository, environment), CodexAgent(repository, environment)
    play_tokens(claude, repository)
    git.commit("Sign tokens instead of setting cookies")
    (repository / "src/auth/tokens.py").write_text(JWT + BY_HAND)
    play_limits(ScriptedAgent(repository, environment), repository)
    play_hooks(codex)
    git.commit("Webhooks, and limits")
    play_rest(claude, repository)
    return repository, environment, claude, codex


def write_program(path: Path) -> None:
    """Write a program that does nothing: an agent that is installed, and can be wired."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


class Git(Struct, frozen=True):
    """The git of a person."""

    repository: Path
    environment: dict[str, str]

    def run(self, *words: str) -> None:
        identity = ("-c", "user.name=Sam Doe", "-c", "user.email=sam@example.org")
        subprocess.run(
            ["git", *identity, *words], cwd=self.repository, env=self.environment, check=True, capture_output=True
        )

    def commit(self, message: str) -> None:
        self.run("add", "-A")
        self.run("commit", "-qm", message)


def say_prompt(agent: ScriptedAgent, prompt: str) -> None:
    agent.hook("UserPromptSubmit", prompt=prompt)
    agent.say("user", prompt)


def play_tokens(agent: ScriptedAgent, root: Path) -> None:
    agent.hook("SessionStart", source="startup", model="claude-sonnet-5")
    say_prompt(agent, "Replace the session cookies by signed tokens. Keep the lifetime of an hour.")
    agent.use("Write", file_path=str(root / "src/auth/tokens.py"), content=JWT)  # no intent yet: refused
    agent.use("mcp__remit__select_active_intent", intent_id="INT-001", reasoning="the person asked for tokens")
    for name in ("src/auth/tokens.py", "src/auth/keys.py", "src/api/login.py", "tests/auth/test_tokens.py"):
        agent.use("Read", file_path=str(root / name))
    agent.say("assistant", [{"type": "text", "text": "HMAC over the claims is enough here: one service, one key."}])
    agent.use("Write", file_path=str(root / "src/auth/tokens.py"), content=JWT)
    agent.use("Write", file_path=str(root / "tests/auth/test_tokens.py"), content=TESTS)
    agent.use("Bash", command="python3 -m compileall -q src", description="Does it compile?")
    agent.use("Bash", command="git status --short")


def play_hooks(agent: CodexAgent) -> None:
    agent.hook("SessionStart", source="startup")
    agent.hook("UserPromptSubmit", prompt="Write down what our webhooks send.")
    agent.use("Bash", command="remit intent select INT-002")
    agent.use("Bash", command="cat docs/api.md")
    agent.add_file("docs/hooks.md", HOOKS)
    agent.add_file("src/api/hooks.py", "HOOKS = []\n")  # out of scope: refused


def play_limits(agent: ScriptedAgent, root: Path) -> None:
    agent.hook("SessionStart", source="startup", model="claude-opus-5")
    say_prompt(agent, "Let a failed login wait before the sixth try.")
    agent.use("mcp__remit__select_active_intent", intent_id="INT-003", reasoning="limits were asked for")
    agent.use("Read", file_path=str(root / "src/api/login.py"))
    agent.use("Write", file_path=str(root / "src/api/limits.py"), content=LIMITS)
    agent.hook("SessionEnd", reason="other")


def play_rest(agent: ScriptedAgent, root: Path) -> None:
    say_prompt(agent, "Compare the marks in constant time, and clean up behind you.")
    agent.use("Read", file_path=str(root / "src/auth/tokens.py"))
    constant = (JWT + BY_HAND).replace("if mark != ours:", "if not hmac.compare_digest(mark, ours):")
    agent.use("Write", file_path=str(root / "src/auth/tokens.py"), content=constant)
    (root / "src/auth/notes.txt").write_text("scratch\n")
    agent.use("Bash", command="rm -rf src/auth/notes.txt src/auth/__pycache__")
    agent.use("Read", file_path=str(root / "docs/api.md"))


def list_shots(base: str, session: str, question: str) -> list[Shot]:
    """Return the pictures that are taken while two questions wait."""
    return [
        Shot("approvals", "/approvals", "[data-card]"),
        Shot("approvals-dark", f"/approvals/{question}", "[data-typed-input]", theme="dark"),
        Shot("phone", f"/p/{question}", "[data-card]", size=PHONE),
        Shot("now", "/", ".row, tbody tr"),
        Shot("session", f"{base}/sessions/{session}", "[data-key]", "tr[data-key]:has(.plus) .about", "aside.peek h2"),
        Shot("code", f"{base}/code/src/auth/tokens.py?wait=1&l=20-24", "aside.peek h2"),
        Shot("intents", f"{base}/intents", "tbody tr"),
        Shot("intent", f"{base}/intents/INT-001", "h1"),
        Shot("changes", f"{base}/changes?wait=1", ".hunk"),
        Shot("agents", f"{base}/agents", "h1"),
        Shot("recovery", f"{base}/restore/latest", "h1"),
        Shot("coverage", f"{base}/governed", "h1"),
        Shot("metrics", f"{base}/metrics", "h1"),
        Shot("ledger", f"{base}/ledger", "tbody tr"),
    ]


def take(page: Page, origin: str, shot: Shot, folder: Path) -> None:
    """Take a picture, and write it with few colours."""
    page.emulate_media(color_scheme="dark" if shot.theme == "dark" else "light")
    page.set_viewport_size({"width": shot.size[0], "height": shot.size[1]})
    page.goto(f"{origin}{shot.address}")
    page.locator(shot.sign).first.wait_for(timeout=WAIT_MS)
    page.locator("[aria-busy=true]").first.wait_for(state="detached", timeout=WAIT_MS)
    if shot.click:
        page.locator(shot.click).first.click()
        page.locator(shot.then).first.wait_for(timeout=WAIT_MS)
    page.evaluate("document.fonts.ready.then(() => true)")
    image = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    reduce_colours(image).save(folder / f"console-{shot.name}.png", optimize=True)


def reduce_colours(image: Image.Image) -> Image.Image:
    """Return a picture with the most frequent colours as they are; each other one becomes the nearest of them."""
    raw = image.tobytes()
    pixels = list(zip(raw[::3], raw[1::3], raw[2::3], strict=True))
    colours = [colour for colour, _ in Counter(pixels).most_common()]
    kept = colours[:COLOURS]
    places = {colour: place for place, colour in enumerate(kept)}
    for colour in colours[COLOURS:]:
        places[colour] = min(range(len(kept)), key=lambda place: measure_distance(kept[place], colour))
    few = Image.frombytes("P", image.size, bytes(places[colour] for colour in pixels))
    few.putpalette([value for colour in kept for value in colour])
    return few


def measure_distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


@contextmanager
def console_of(home: Path, repository: Path, environment: dict[str, str]) -> Generator[str]:
    """Serve the console, and give its link; the daemon ends with it."""
    out = call_remit(repository, environment, "serve", "--json")
    try:
        yield str(json.loads(out)["data"]["link"])
    finally:
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                words = place.with_name("cmdline").read_bytes().split(b"\0")
                if f"HOME={home}".encode() in place.read_bytes().split(b"\0") and b"daemon" in words:
                    os.kill(int(place.parent.name), signal.SIGTERM)
            except OSError:
                continue


def draw_pictures(folder: Path) -> None:
    """Make the world, open the console in a browser, let both agents ask, and take all pictures."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium on this machine")
    home = Path(tempfile.mkdtemp(prefix="remit-pictures-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        repository, environment, claude, codex = make_world(home)
        with console_of(home, repository, environment) as link, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            visit(browser, link, repository, claude, codex, folder)
            browser.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def visit(
    browser: Browser, link: str, repository: Path, claude: ScriptedAgent, codex: CodexAgent, folder: Path
) -> None:
    context = browser.new_context()
    inbox, page = context.new_page(), context.new_page()
    origin = link.partition("/pair")[0]
    inbox.goto(link)
    inbox.wait_for_url(f"{origin}/")
    inbox.goto(f"{origin}/approvals")
    inbox.locator("[data-live].on").wait_for(state="attached", timeout=WAIT_MS)
    time.sleep(2.0)  # a watcher signs each 1.5 s; agents wait only for one that has signed
    api = API.replace("sets a session cookie", "answers with a token") + "\nSend it as `Authorization: Bearer`.\n"
    calls = [
        threading.Thread(
            target=claude.use, args=("Write",), kwargs={"file_path": str(repository / "docs/api.md"), "content": api}
        ),
        threading.Thread(
            target=codex.use, args=("Bash",), kwargs={"command": "git push --force origin feature/jwt && git tag -d v1"}
        ),
    ]
    for count, call in enumerate(calls):
        call.start()
        inbox.locator("[data-ticket]").nth(count).wait_for(timeout=WAIT_MS)
    names = [str(each.get_attribute("data-ticket")) for each in inbox.locator("[data-ticket]").all()]
    for shot in list_shots(f"/r/{quote(repository.name)}", claude.session, names[-1]):
        take(page, origin, shot, folder)
    for call in calls:
        inbox.locator("[data-card]").wait_for(timeout=WAIT_MS)
        time.sleep(0.5)  # a card takes no key before
        inbox.keyboard.press("n")
        call.join(5.0)
    context.close()


if __name__ == "__main__":
    draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "assets")
