"""A governed repository in which each text that an agent, a file or a transcript supplies is a hostile one."""

import json
from html.parser import HTMLParser
from pathlib import Path

from msgspec.structs import replace

from conftest import run_git
from corpus.hostile import TEXTS, list_marked, mark
from gate.driving import governed, machine
from provenance.speaker import Speaker
from remit.core.record import Body, CallPart, MutatedFile
from remit.gate.gate import Gate
from remit.gate.people.questions import Question
from remit.workspace.place.workspace import locate_workspace, register_repository, workspace_at

FOLDER_NAME = "re po<img src=x onerror=alert(1)>\"'&amp;?#%41\u202e{{7*7}}"
SURROGATES = "\ud800\udfff\udcff"  # JSON of hooks, YAML and TOML have none
IN_FILE_NAMES = 250  # bytes


class HostileWorld:
    """The repository. With `is_plain`, each text is a harmless one: its pages say which elements are the console's."""

    def __init__(self, parent: Path, home: Path, *, is_plain: bool = False) -> None:
        self.home, self.is_plain = home, is_plain
        self.root = parent / ("plain" if is_plain else FOLDER_NAME)
        self.root.mkdir()
        run_git(self.root, "init", "-q")
        self.sessions: list[str] = []
        self.files: list[str] = []
        self.questions: list[str] = []
        self.intents: list[str] = []

    def list_texts(self, *, longest: int = 1_000_000, without: str = "") -> list[str]:
        if self.is_plain:
            return [mark(number, "plain") for number in range(len(TEXTS))]
        return list_marked(longest=longest, without=without)

    def build(self) -> "HostileWorld":
        self.govern()
        self.speak()
        self.record()
        self.ask()
        self.commit()
        return self

    def govern(self) -> None:
        governed(self.root, intents=self.write_intents())
        settings = self.root / ".orchestration" / "remit.toml"
        words = quote_widely(" ".join(self.list_texts(longest=500, without=SURROGATES)))
        settings.write_text(f"{settings.read_text()}\n[run]\ninstructions = {words}\n")
        register_repository(self.home, workspace_at(self.root, self.root))

    def write_intents(self) -> str:
        rows: list[object] = [
            {
                "id": "INT-001",
                "name": "Work",
                "status": "IN_PROGRESS",
                "owned_scope": ["src/**"],
                "constraints": ["none"],
                "acceptance_criteria": ["it works"],
            }
        ]
        for number, text in enumerate(self.list_texts(longest=2000, without="\0" + SURROGATES)):
            self.intents.append(f"INT-{100 + number}")
            globs = [f"docs/{number}/**", *([] if set(text) & set("[]{}") or ".." in text else [text])]
            rows.append(
                {
                    "id": self.intents[-1],
                    "name": text[:200],
                    "description": text,
                    "status": "DRAFT",
                    "owned_scope": globs,
                    "constraints": [text],
                    "acceptance_criteria": [{"text": text, "verify": text}],
                }
            )
        return f'version: "1.0"\nactive_intents: {quote_widely(rows)}\n'

    def speak(self) -> None:
        """Let an agent write files, run commands and use tools with these texts, through its hooks."""
        names = self.list_texts(longest=IN_FILE_NAMES, without="\0/\ud800\udfff")
        self.files = [f"src/{name}.py" for name in names]
        everything = self.list_texts(without=SURROGATES)
        for number, text in enumerate(everything):
            agent = Speaker(self.root, self.home, f"session-{number}")
            agent.session = text
            agent.agent_id = text if number % 2 else ""
            agent.own.parent.mkdir(parents=True, exist_ok=True)
            self.sessions.append(text)
            agent.add("user", text)
            agent.select()
            agent.says(text)
            if number < len(self.files):
                (self.root / "src").mkdir(exist_ok=True)
                (self.root / self.files[number]).touch()  # a person's: an agent makes no such name
                agent.write(self.files[number], f"{text}\nlast = {number}\n")
            agent.ask("Bash", command=f"made '{text}'")
            agent.ask(text, query=text)
            agent.ask("Read", file_path=f"{self.root}/{text}")

    def record(self) -> None:
        """Append records with texts that no hook of these agents carries: names of agents, lessons, imported fields."""
        gate = self.open_gate()
        try:
            for text in self.list_texts(without=SURROGATES):
                call = CallPart(name=text, effect="execute", command=text, paths=(text,))
                bodies = (
                    Body(event="lesson", detail={"lesson": {"text": text, "problem": text}, "by": text}),
                    Body(event="session_start", detail={"model": text, "source": text}, branch=text),
                    Body(event="verification", detail={"command": text, "paths": [text], "exit_code": 1}),
                    Body(event="mutation", call=call, files=(MutatedFile(path=text, operation="modify"),)),
                    Body(event="denied", call=call, violation={"error_type": text, "path": text}),
                )
                for body in (replace(body, intent_id=text, session_id=f"of {text[:200]}") for body in bodies):
                    gate.recorder.append([gate.recorder.make_record(body, text)])
        finally:
            gate.close()

    def ask(self) -> None:
        gate = self.open_gate()
        now = gate.environment.clock.now()
        try:
            for number, text in enumerate(self.list_texts(without=SURROGATES)):
                is_command = bool(number % 2)
                self.questions.append(f"q{number:03}")
                gate.questions.put_question(
                    Question(
                        self.questions[-1],
                        text,
                        text,
                        text,
                        "SCOPE_VIOLATION",
                        f"Bash: {text}" if is_command else text,
                        text,
                        path=None if is_command else text,
                        risk=20 + number,
                        reasons=(text, text),
                        asked_at=now,
                        expires_at=now + 3600,
                        tool="Bash" if is_command else text,
                        is_command=is_command,
                        prefix=(text,) if is_command else (),
                        diff="" if is_command else f"@@ -1 +1 @@\n-{text}\n+{text}\n",
                    ),
                    f"digest {number}",
                )
        finally:
            gate.close()

    def commit(self) -> None:
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-qm", "\n".join(self.list_texts(without="\0" + SURROGATES)))

    def open_gate(self) -> Gate:
        return Gate(locate_workspace(self.root), machine(self.home))


def quote_widely(value: object) -> str:
    """Return JSON that YAML and TOML read too: they write characters beyond the first plane in one escape."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in json.dumps(value, ensure_ascii=False))


class ShownPage(HTMLParser):
    """What an HTML page consists of: its text, its elements with the names of attributes, and their values."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.elements: set[tuple[str, str]] = set()
        self.values: list[tuple[str, str, str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, ""))
        for name, value in attrs:
            self.elements.add((tag, name))
            self.values.append((tag, name, value or ""))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)
