"""`remit intent`: what a person may write, and what they are told of it."""

from pathlib import Path

import pytest

from cli.running import data, remit, run, run_on_terminal
from gate.driving import INTENTS, Agent, body, governed, records


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


@pytest.mark.parametrize("name", ["", "   "])
def test_an_intent_needs_a_name(agent: Agent, name: str) -> None:
    done = run(agent.cwd, "intent", "new", name, "--scope", "src/**")
    assert (done.returncode, "needs a name" in done.stderr) == (2, True)
    assert run(agent.cwd, "intent", "edit", "INT-001", "--name", name).returncode == 2


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (r"src\\app.py", "backslash"),
        (" src/** ", "white space"),
        (".orchestration/**", "which no scope contains"),
        ("scr/**", "matches no file"),
    ],
)
def test_a_doubtful_scope_is_said_and_the_intent_made(agent: Agent, scope: str, said: str) -> None:
    done = run(agent.cwd, "intent", "new", "x", "--scope", scope.replace("\\\\", "\\"))
    assert (done.returncode, said in done.stderr) == (0, True)
    assert "remit intent edit" in done.stderr


@pytest.mark.parametrize("scope", ["src/**", "*.md", "src/app.py", "**/*.py", "{src,docs}/**"])
def test_of_a_scope_that_matches_nothing_is_said(agent: Agent, scope: str) -> None:
    done = run(agent.cwd, "intent", "new", "x", "--scope", scope)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [("select", "INT-001"), ("clear",)])
def test_a_session_that_nobody_knows_is_an_error(agent: Agent, command: tuple[str, ...]) -> None:
    agent.select()
    done = run(agent.cwd, "intent", *command, "--session", "nope")
    assert (done.returncode, "no session 'nope'\nhint: the newest: session-1" in done.stderr) == (2, True)


def test_a_session_that_only_read_is_known(agent: Agent) -> None:
    agent.read("README.md")
    assert run(agent.cwd, "intent", "select", "INT-002", "--session", "session-1").returncode == 0


def test_a_session_for_which_a_person_selects_stays_its_agents(agent: Agent) -> None:
    agent.select()
    assert run(agent.cwd, "intent", "select", "INT-001", "--session", "session-1").returncode == 0
    assert "sessions  ✦ claude-code  session-1  INT-001" in run(agent.cwd, "status").stdout


@pytest.mark.parametrize("words", [("new", "x", "--scope", "src/**"), ("edit", "INT-001", "--name", "x"), ("list",)])
def test_no_command_of_intents_starts_governing(repository: Path, home: Path, words: tuple[str, ...]) -> None:
    done = run(repository, "intent", *words)
    assert (done.returncode, "remit init" in done.stderr) == (2, True), done
    assert not (repository / ".git" / "remit" / "governed").exists()
    assert not (repository / ".orchestration").exists()


CHILD = """
  - id: INT-003
    owned_scope: ["src/child/**"]
    status: IN_PROGRESS
    parent_intent: INT-001
    constraints: [none]
    acceptance_criteria: [it works]
"""


@pytest.mark.parametrize(
    "words", [("complete", "INT-001", "--notes", "looked"), ("set-status", "INT-001", "DONE", "--notes", "looked")]
)
def test_a_parent_is_closed_before_its_child_only_by_force(agent: Agent, words: tuple[str, ...]) -> None:
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(path.read_text() + CHILD.lstrip("\n"))
    done = run(agent.cwd, "intent", *words)
    assert (done.returncode, "INT-003 is IN_PROGRESS" in done.stderr, "--force" in done.stderr) == (3, True, True)
    assert "status: DONE" not in path.read_text()
    done = run(agent.cwd, "intent", *words, "--force")
    assert (done.returncode, "closed before its children: INT-003" in done.stderr) == (0, True)
    assert "INT-001: IN_PROGRESS -> DONE" in done.stdout


def test_older_versions_of_an_intent_are_shown(agent: Agent) -> None:
    run(agent.cwd, "status")
    agent.select()
    assert run(agent.cwd, "intent", "edit", "INT-001", "--add-scope", "docs/**", "--name", "New").returncode == 0
    assert run(agent.cwd, "intent", "complete", "INT-001", "--notes", "looked").returncode == 0
    found = data(agent.cwd, "intent", "history", "INT-001")
    assert [v["version"] for v in found] == [1, 2, 3]
    assert [v["intent"]["owned_scope"] for v in found] == [["src/**"], ["src/**", "docs/**"], ["src/**", "docs/**"]]
    assert [v["intent"]["name"] for v in found] == ["Names", "New", "New"]
    assert found[1]["by"] == "person"
    assert found[1]["changes"] == ["owned_scope + docs/**", "name Names → New"]
    assert "status IN_PROGRESS → DONE" in found[2]["changes"]
    text = run(agent.cwd, "intent", "history", "INT-001").stdout
    assert "owned_scope + docs/**" in text
    first = run(agent.cwd, "intent", "history", "INT-001", "--version", "1").stdout
    assert ("Names" in first, "docs/**" in first) == (True, False)
    assert [v["version"] for v in data(agent.cwd, "intent", "history", "INT-001", "-n", "1")] == [3]
    assert data(agent.cwd, "intent", "history", "INT-001", "-n", "1")[0]["changes"] == found[2]["changes"]
    done = run(agent.cwd, "intent", "history", "INT-009")
    assert (done.returncode, "no version of 'INT-009'" in done.stderr) == (2, True)


def test_a_deleted_intent_has_its_history(agent: Agent) -> None:
    assert run(agent.cwd, "intent", "new", "Draft", "--scope", "x/**", "--id", "INT-003").returncode == 0
    assert run(agent.cwd, "intent", "delete", "INT-003").returncode == 0
    found = data(agent.cwd, "intent", "history", "INT-003")
    assert [(v["is_deleted"], v["intent"] is None) for v in found] == [(False, False), (True, True)]


TEMPLATE = """\
# what each of our migrations keeps to
name: Migration
owned_scope: [migrations/**]
owner: data-team
priority: HIGH
constraints:
  - Can be undone
  - {type: max_lines, paths: "migrations/**", max: 200}
acceptance_criteria:
  - {text: It runs twice, verify: make migrate}
references: [docs/migrations.md]
"""


def template(agent: Agent, name: str, text: str) -> None:
    folder = agent.cwd / ".orchestration" / "templates"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def test_an_intent_begins_with_a_template_of_the_team(agent: Agent) -> None:
    template(agent, "migration", TEMPLATE)
    words = ("--template", "migration", "--constraint", "No data is lost", "--reference", "INT-001", "--owner", "me")
    made = data(agent.cwd, "intent", "new", "Split names", *words)
    assert (made["name"], made["owned_scope"], made["status"]) == ("Split names", ["migrations/**"], "DRAFT")
    assert [c["text"] for c in made["constraints"]][::2] == ["Can be undone", "No data is lost"]
    assert made["constraints"][1]["kind"] == "max_lines"
    assert made["acceptance_criteria"] == [{"text": "It runs twice", "verify": "make migrate"}]
    assert (made["owner"], made["priority"], made["references"]) == ("me", "HIGH", ["docs/migrations.md", "INT-001"])
    made = data(agent.cwd, "intent", "new", "--template", "migration", "--scope", "db/**", "--priority", "LOW")
    assert (made["name"], made["owned_scope"], made["priority"]) == ("Migration", ["db/**"], "LOW")


@pytest.mark.parametrize("name", ["bugfix", "feature", "refactor", "docs"])
def test_a_few_templates_are_there_already(agent: Agent, name: str) -> None:
    made = data(agent.cwd, "intent", "new", "x", "--scope", "src/**", "--template", name, "--parent", "INT-001")
    assert made["acceptance_criteria"]
    assert (made["parent_intent"], made["owned_scope"]) == ("INT-001", ["src/**"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none", "", "no template 'none' (known: bad, bugfix, feature, refactor, docs)"),
        ("../bad", "", "no template"),
        ("bad", "owner: [a]\n", "line 1: owner is a list"),
        ("bad", "- a\n", "expected a mapping"),
        ("bad", "a: [\n", "cannot be used"),
    ],
)
def test_a_template_that_cannot_be_used_is_told(agent: Agent, name: str, text: str, said: str) -> None:
    template(agent, "bad", text or "owner: x\n")
    done = run(agent.cwd, "intent", "new", "x", "--scope", "src/**", "--template", name)
    assert (done.returncode, said in done.stderr) == (2, True), done


def with_check(agent: Agent, command: str) -> None:
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(INTENTS.replace("[it works]", f"[{{text: it works, verify: {command}}}]", 1))


@pytest.mark.parametrize("words", [("complete", "INT-001", "--notes", "looked"), ("set-status", "INT-001", "DONE")])
def test_done_without_a_proof_takes_a_terminal(agent: Agent, words: tuple[str, ...]) -> None:
    with_check(agent, "touch ran")
    done = run(agent.cwd, "intent", *words)
    assert (done.returncode, '1 check was not run here, for want of trust: "touch ran"' in done.stderr) == (3, True)
    assert data(agent.cwd, "intent", "show", "INT-001")["status"] == "IN_PROGRESS"
    assert not (agent.cwd / "ran").exists()


@pytest.mark.parametrize(
    ("command", "answer", "status", "ran"),
    [
        ("touch ran", b"y", "DONE", True),
        ("touch ran", b"s", "DONE", False),
        ("touch ran", b"n", "IN_PROGRESS", False),
        ("touch ran; false", b"y", "IN_PROGRESS", True),
    ],
)
def test_a_person_decides_about_a_check_that_nobody_trusts(
    agent: Agent, command: str, answer: bytes, status: str, ran: bool
) -> None:
    with_check(agent, command)
    words = ["-m", "remit", "intent", "complete", "INT-001", "--notes", "looked"]
    code, seen = run_on_terminal(agent.cwd, words, b"[n]", answer + b"\n")
    assert code == (0 if status == "DONE" else 3), seen
    assert data(agent.cwd, "intent", "show", "INT-001")["status"] == status
    assert (agent.cwd / "ran").exists() == ran
    if answer == b"s":
        [moved] = [body(record) for record in records(agent.cwd, "intent_transition")]
        assert moved["notes"] == "looked (completed without proof: touch ran)"


def test_what_an_intent_needs_is_said_at_its_selection_and_its_end(agent: Agent) -> None:
    made = data(agent.cwd, "intent", "new", "x", "--scope", "lib/**", "--needs", "INT-001", "--needs", "INT-002")
    assert made["dependencies"] == ["INT-001", "INT-002"]
    assert run(agent.cwd, "intent", "new", "x", "--scope", "lib/**", "--needs", "INT-099").returncode != 0
    assert data(agent.cwd, "intent", "edit", "INT-003", "--needs", "INT-002")["dependencies"] == ["INT-002"]
    circle = run(agent.cwd, "intent", "edit", "INT-002", "--needs", "INT-003")
    assert (circle.returncode, "INT-002 would need itself" in circle.stderr) == (2, True)
    agent.read("README.md")
    said = "INT-003 depends on INT-002, which is not DONE"
    assert said in run(agent.cwd, "intent", "select", "INT-003", "--session", "session-1").stderr
    done = run(agent.cwd, "intent", "complete", "INT-003", "--notes", "looked")
    assert (done.returncode, said in done.stderr) == (0, True)
    assert data(agent.cwd, "intent", "edit", "INT-002", "--needs", "")["dependencies"] == []


MEANT = [
    (("intent", "show", "limits"), 0, "INT-003"),
    (("intent", "show", "3"), 0, "INT-003"),
    (("intent", "show", "Rate limits"), 0, "INT-003"),
    (("intent", "history", "limits"), 0, "v1 "),
    (("intent", "edit", "limits", "--needs", "doc"), 0, "INT-003"),
    (("intent", "set-status", "limits", "IN_PROGRESS"), 0, "INT-003"),
    (("intent", "bind", "limits"), 0, "INT-003"),
    (("log", "--intent", "limits", "--event", "intent_transition"), 0, "INT-003"),
    (("plan", "check", "limits"), 1, "INT-003"),
    (("intent", "reopen", "limits", "--reason", "x"), 2, "only a closed intent"),
    (("intent", "show", "int-00"), 2, "'int-00' fits INT-001 (Names), INT-002 (Docs), INT-003 (Rate limits): say more"),
    (("intent", "show", "INT-00"), 2, "say more of it"),
    (("intent", "show", "nothing"), 2, "there is no intent 'nothing' (known: INT-001, INT-002, INT-003)"),
    (("intent", "show", "INT-0099"), 2, "there is no intent 'INT-0099'"),
]


def test_a_person_says_a_part_of_number_or_name(agent: Agent) -> None:
    remit(agent.cwd, "intent", "new", "Rate limits", "--scope", "lib/**")
    for words, code, said in MEANT:
        done = run(agent.cwd, *words)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), (words, done.stdout, done.stderr)


def test_an_agent_says_an_id_in_full(agent: Agent) -> None:
    for given in ("docs", "2"):
        assert "Did you mean INT-002?" in str(agent.select(given))
    assert "Did you mean INT-002?" in str(agent.ask("Bash", command="remit intent select docs"))
    assert "Did you mean" not in str(agent.select("INT-999"))
