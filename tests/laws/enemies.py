"""What an enemy sends: drawn by every law."""

from hypothesis import strategies as st

from remit.core.assignment import Assignment, AssignmentFacts
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, Mode, SessionFacts, Target
from remit.core.intent import STATUSES, Intent, IntentSet, LintFinding
from remit.core.scope.path_patterns import InvalidPath, OutsideWorkspace, RepoPath

ROOT = "/w"

AWKWARD = [
    "",
    ".",
    "..",
    "/",
    "//",
    "~",
    "a\0b",
    "a\nb",
    "a\r\nb",
    "\u00e9",
    "e\u0301",
    "\udce9",
    "\ud800",
    "src/../../etc/passwd",
    "src//./x",
    ".git/config",
    ".GIT/config",
    ".orchestration/remit.toml",
    "src/.orchestration",
    "x" * 5000,
    "\u202etxt.exe",
    "-rf",
    "$(reboot)",
    "*",
    "[",
    "{a,b",
]

texts = st.sampled_from(AWKWARD) | st.text(max_size=40)
paths = texts | st.lists(st.sampled_from([*AWKWARD, "src", "a", "link"]), max_size=6).map("/".join)
modes: st.SearchStrategy[Mode] = st.sampled_from(["observe", "warn", "enforce"])

intents = st.builds(
    Intent,
    id=st.sampled_from(["INT-001", "INT-002", "INT-003"]),
    owned_scope=st.lists(st.sampled_from(["src/**", "**", "docs/*", "!src/x", "[", "{a,b}", "a\\"]), min_size=1).map(
        tuple
    ),
    status=st.sampled_from(STATUSES),
    blocked_reason=st.none() | texts,
)


def repo_path(raw: str) -> RepoPath | None:
    """The path below ROOT; None for one outside or none at all."""
    try:
        return RepoPath.parse(raw, ROOT)
    except (InvalidPath, OutsideWorkspace):
        return None


targets = st.builds(
    Target,
    raw=paths,
    resolved=paths,
    path=paths.map(repo_path),
    protected=st.none() | texts,
    tolerated=st.booleans(),
    sha256=st.sampled_from([None, "a" * 64, "b" * 64]),
    seen_sha256=st.sampled_from([None, "a" * 64, "b" * 64]),
    diff=texts,
    ignored_by=st.none() | texts,
    folds=st.booleans(),
)

commands = st.sampled_from(
    ["ls", "make", "python3 x.py", "echo x > README.md", "git reset --hard", "cat $(x)", "remit intent list"]
)

calls = st.builds(
    ToolCall,
    agent=st.just("claude-code"),
    session=st.just(SessionKey("s")),
    tool=texts,
    effect=st.sampled_from(["read", "write", "delete", "execute", "network", "meta", "none"]),
    cwd=st.just(ROOT),
    paths=st.lists(paths, max_size=3).map(tuple),
    command=st.none() | commands | texts,
    malformed=st.none() | texts,
    checks_itself=st.booleans(),
)

findings = st.builds(
    LintFinding, code=st.just("YAML_PARSE_ERROR"), severity=st.sampled_from(["error", "warning"]), message=texts
)


assignments = st.builds(
    AssignmentFacts,
    st.none()
    | st.builds(
        Assignment,
        task=texts,
        intent=st.sampled_from(["INT-001", "INT-002"]),
        attempt=st.just(1),
        token=st.just(1),
        scope=st.sampled_from([(), ("**",), ("src/**",), ("src/**", "!src/a/**"), ("[",)]),
        state=st.sampled_from(["active", "paused", "ended"]),
        role=texts,
        paths=st.sampled_from([(), ("**",), ("src/**",)]),
        effects=st.sampled_from([(), ("read",), ("read", "write"), ("read", "write", "execute")]),
    ),
    st.sampled_from(["", "its lease has run out"]),
)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Any situation that can be."""
    lint = draw(st.lists(findings, max_size=2))
    broken = any(f.severity == "error" for f in lint)
    return Facts(
        mode=draw(modes),
        session=SessionFacts(draw(st.sampled_from([None, "INT-001", "INT-009"])), draw(texts)),
        intents=made(draw(st.lists(intents, max_size=3, unique_by=lambda i: i.id))),
        intents_state="invalid" if broken else draw(st.sampled_from(["ok", "missing"])),
        intents_findings=tuple(lint),
        config_error=draw(st.none() | texts),
        ignored_intents=frozenset(draw(st.lists(st.sampled_from(["INT-001", "INT-002"]), max_size=2))),
        targets=tuple(draw(st.lists(targets, max_size=3))),
        perhaps=tuple(draw(st.lists(targets, max_size=2))),
        containable=draw(st.booleans()),
        assignment=draw(st.none() | assignments),
    )


def made(found: list[Intent]) -> IntentSet:
    """The intents as facts hold them."""
    return IntentSet(found)
