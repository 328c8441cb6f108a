"""Services: databases, containers, clouds, package registries and coding agents.

Source: the manuals of SQLite 3.45, PostgreSQL 17, Docker 27 and the other programs named, read 2026-11.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.policy.commands.programs.files import check_local
from remit.policy.commands.programs.row import (
    ANY_NUMBER,
    DESTROYS_REMOTELY,
    EVADES_CONTROL,
    PUBLISHES,
    DangerRule,
    Program,
    StdinRule,
    WriterRow,
    Writes,
    extract_to,
    rows,
    verbs_that_read,
    write_all,
)
from remit.policy.commands.words import (
    OptionRow,
    ParsedOptions,
    UnprovedCommand,
    Word,
    dashed_options,
    parse_dashed,
    parse_options,
)


def write_docker(name: str, words: Sequence[Word]) -> Writes:
    rest = words[1:] if words and words[0].text == "container" else words
    if not rest or rest[0].text != "cp" or not rest[0].is_literal:
        raise UnprovedCommand(f"what `{name}` does is not on the tables")
    parsed = parse_options(f"{name} cp", OptionRow("aLq", long="archive follow-link quiet"), rest[1:])
    if len(parsed.operands) != 2:
        raise UnprovedCommand(f"`{name} cp` without a source and a target")
    source, target = parsed.operands
    check_local(name, ParsedOptions((), (target,)))
    if not source.is_literal or ":" not in source.text:
        raise UnprovedCommand(f"what `{name} cp` copies is not in the text")
    into = posixpath.basename(source.text.rstrip("/"))
    writes = () if target.text == "-" else extract_to(name, target)
    return tuple(replace(write, names_inside=(into,)) for write in writes)


LIST_WORDS = OptionRow(
    "aqnlsgx", "f", "all quiet latest size no-trunc digests tree services orphans", "filter format last"
)
SHOW_WORDS = OptionRow("fts", "n", "follow timestamps details size no-color no-log-prefix latest", "tail since until "
    "format type index")  # fmt: skip
CONTAINER_VERBS = {
    "ps|images|container ls|container list|container ps|image ls|image list|volume ls|volume list|network ls|"
    "network list|context ls|compose ps|compose ls|compose images|buildx ls": LIST_WORDS,
    "logs|inspect|port|diff|history|version|info|container logs|container inspect|container port|container diff|"
    "image inspect|image history|volume inspect|network inspect|context show|compose logs|compose port|"
    "compose version|system info|system df": SHOW_WORDS,
    "top|container top|compose top": OptionRow(),
    "stats|container stats": OptionRow("a", "", "all no-stream no-trunc", "format", required="--no-stream"),
}
read_containers = verbs_that_read(CONTAINER_VERBS, OptionRow("", "c", long_valued="context"))

CLUSTER_PLACE = "namespace context output selector"
CLUSTER_VERBS_THAT_READ = {
    "get|events": OptionRow("Aw", "nolL", "all-namespaces watch show-labels no-headers ignore-not-found show-kind "
        "watch-only", f"{CLUSTER_PLACE} label-columns sort-by field-selector chunk-size types for"),
    "describe|top|top pod|top pods|top node|top nodes": OptionRow("A", "nl", "all-namespaces containers no-headers",
        f"{CLUSTER_PLACE} show-events sort-by"),
    "logs": OptionRow("fp", "ncl", "follow previous timestamps all-containers prefix ignore-errors",
        f"{CLUSTER_PLACE} container since since-time tail limit-bytes max-log-requests"),
    "explain|version|api-resources|api-versions|config current-context|config get-contexts|config get-clusters|"
    "auth can-i|auth whoami|rollout status|rollout history": OptionRow("A", "no", "recursive client short namespaced "
        "no-headers list quiet all-namespaces", f"{CLUSTER_PLACE} api-group verbs timeout revision"),
    "cluster-info|config view": OptionRow("", "o", "minify", "output context", operands=0),
}  # fmt: skip
"""Without `--kubeconfig`: such a file may name a program to run. Without `dump`, `--raw` and `diff`."""

GITHUB_VERBS = {
    f"{thing} {verb}": OptionRow("cv", "LRsAalBHSbejqtd", "comments log log-failed name-only patch required verbose "
        "exit-status draft archived fork source", "limit repo state author assignee label base head search branch "
        "event json jq template job workflow milestone mention app status user created commit attempt color topic "
        "language visibility order sort")
    for things, verbs in (
        ("pr", "view list status checks diff"),
        ("issue", "view list status"),
        ("run release workflow gist", "view list"),
        ("repo", "view list"),
        ("label cache secret variable ruleset project", "list"),
        ("auth", "status"),
        ("search", "prs issues code commits repos"),
    )
    for thing in things.split()
    for verb in verbs.split()
}  # fmt: skip
"""Without `--web`, which opens a browser, and `--show-token`."""

MACHINE_OPTIONS = (
    r"(?:-v|--volume=|--mount=.*(?:source|src)=)?(?:/|~|\$HOME|\$\{HOME\}|/root|/etc|/home|/var|/usr|"
    r"/var/run/docker\.sock|/run/docker\.sock)/?:.*|(?:--pid|--net|--network|--ipc|--userns)=host"
)
GIVES_MACHINE = (
    DangerRule("run|create", "gives a container the machine", "--privileged"),
    DangerRule("run|create|exec", "gives a container the machine", words=MACHINE_OPTIONS),
)
CONTAINERS = (
    *GIVES_MACHINE,
    DangerRule("system|volume|image|container|network|builder prune|rm", "destroys containers and their data"),
    DangerRule("rm|rmi", "destroys containers and their data", "-f --force -v"),
    DangerRule("push", PUBLISHES),
)
REGISTRY = (DangerRule("publish|unpublish|yank", PUBLISHES, unless="--dry-run -n"),)
GITHUB_THINGS = "repo|release|secret|variable|ssh-key|gpg-key|gist|issue|run|cache"
GITHUB = (
    DangerRule(f"{GITHUB_THINGS} delete|archive|edit|rename|set|remove|add", DESTROYS_REMOTELY),
    DangerRule("pr merge|close", "changes what others share"),
    DangerRule("release|gist create|upload", PUBLISHES),
)
CLUSTER_VERBS = "delete|drain|cordon|scale|replace|apply|patch|edit|exec"
CLUSTER = (DangerRule(CLUSTER_VERBS, DESTROYS_REMOTELY, unless="--dry-run"),)
CLOUD_WORDS = r"(?:\w+:)?(?:delete|destroy|remove|deploy|create|update|reset|stop|purge)"
CLOUD = (DangerRule("", DESTROYS_REMOTELY, words=CLOUD_WORDS),)

CHANGING_SQL = re.compile(r"\s*(?:create|insert|update|delete|drop|alter|begin|replace)\b", re.IGNORECASE)

REACHING_SQL = re.compile(
    r"^\s*\.|\battach\b|load_extension|writefile|\bedit\s*\(|\bvacuum\b|tokenizer|\bpragma\b|\bvirtual\b|zipfile",
    re.IGNORECASE | re.MULTILINE,
)
"""SQL by which SQLite writes elsewhere, or runs a program."""


def write_sqlite(name: str, words: Sequence[Word]) -> Writes:
    """Return the writes of `sqlite3 FILE 'SQL'` if the SQL changes data. A query may read any file: it is unknown."""
    flags = dashed_options("header noheader csv json line list column table markdown box batch bail html tabs quote")
    _, operands = parse_dashed(name, flags, words)
    database, *scripts = operands or (Word(":"),)
    if not all(word.is_literal for word in operands) or ":" in database.text or not scripts:
        raise UnprovedCommand(f"what `{name}` does is not in its words")
    changes = any(CHANGING_SQL.match(word.text) for word in scripts)
    if not changes or any(REACHING_SQL.search(word.text) for word in scripts):
        raise UnprovedCommand(f"what `{name}` reads or writes is not in its words")
    names = (Word(database.text + suffix) for suffix in ("", "-journal", "-wal", "-shm"))
    return write_all(name, names, edits_in_place=True)


SQL = StdinRule(ANY_NUMBER, "c e f l --command --execute --file --list")
DROPPING_SQL = (
    r"(?is).*\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s|delete\s+from|"
    r"alter\s+table|update\s+\w+\s+set)\b.*"
)
DROPS_DATA = (DangerRule("", "destroys a database's data", words=DROPPING_SQL),)
DROPS_DOCUMENTS = (DangerRule("", DESTROYS_REMOTELY, words=r"(?s).*(?:dropDatabase|\.drop\(|deleteMany|remove\().*"),)

PROGRAMS = rows({
    "docker": Program(reads=read_containers, writes=write_docker, danger=CONTAINERS, version_options="--version",
        roles="wrapper"),
    "podman": Program(reads=read_containers, danger=CONTAINERS, roles="wrapper"),
    "nerdctl": Program(reads=read_containers, danger=GIVES_MACHINE),
    "docker-compose": Program(reads=verbs_that_read({"ps|images": LIST_WORDS, "logs|port|version": SHOW_WORDS}),
        danger=(DangerRule("down", "destroys containers and their data",
        "-v --volumes --rmi"),)),
    "npm pnpm yarn cargo flit pdm lerna": Program(danger=REGISTRY),
    "poetry hatch": Program(danger=REGISTRY, stdin=StdinRule(runs_rest=True)),
    "uv": Program(danger=REGISTRY, stdin=StdinRule(valued="p --python --with", runs_rest=True),
        version_options="--version"),
    "twine": Program(danger=(DangerRule("upload", PUBLISHES),)),
    "gem": Program(danger=(DangerRule("push|yank", PUBLISHES),)),
    "mvn": Program(danger=(DangerRule("deploy|release:perform", PUBLISHES),)),
    "gh": Program(reads=verbs_that_read(GITHUB_VERBS, also=("git",)), danger=GITHUB, version_options="--version",
        roles="sender"),
    "kubectl": Program(reads=verbs_that_read(CLUSTER_VERBS_THAT_READ,
        OptionRow("", "n", long_valued="namespace context")), danger=CLUSTER, roles="wrapper"),
    "oc": Program(danger=CLUSTER),
    "terragrunt": Program(danger=(DangerRule("apply|destroy|import|taint|force-unlock", DESTROYS_REMOTELY),)),
    "pulumi cdk cdktf serverless sls sam": Program(danger=(DangerRule("up|destroy|deploy|remove|delete",
        DESTROYS_REMOTELY),)),
    "helm": Program(danger=(DangerRule("install|upgrade|uninstall|delete|rollback", DESTROYS_REMOTELY,
        unless="--dry-run"),)),
    "aws": Program(danger=(DangerRule("", DESTROYS_REMOTELY,
        words=r"(?:delete|terminate|remove|destroy|purge|put|create|update|modify|stop|reboot|run)-[\w-]+|rm|rb|mv|"
        r"sync|cp"),), roles="sender"),
    "gcloud az": Program(danger=CLOUD, roles="sender"),
    "heroku flyctl fly doctl vercel netlify firebase": Program(danger=CLOUD),
    **{row.binary: Program(danger=(DangerRule("", EVADES_CONTROL, " ".join(row.unguarded_options),
        is_irreversible=False),)) for row in ROWS.values()},
    "pipenv": Program(stdin=StdinRule(runs_rest=True)),
    "npx": Program(stdin=StdinRule(valued="p", runs_rest=True)),
    "pg_dump": Program(writes=WriterRow(OptionRow("acCOsxvwW", "dhpUnNtTE",
        "clean column-inserts create data-only if-exists inserts no-owner no-privileges schema-only verbose",
        "dbname exclude-table host port schema table username"), "none", outputs="--file -f")),
    "sqlite3": Program(writes=write_sqlite, danger=DROPS_DATA, stdin=StdinRule(2, "-version", "",
        "-cmd -init -separator"), roles="editor"),
    "dropdb dropuser mysqladmin": Program(danger=(DangerRule("", DESTROYS_REMOTELY),)),
    "psql mysql mariadb": Program(danger=DROPS_DATA, stdin=SQL),
    "sqlcmd clickhouse-client duckdb": Program(danger=DROPS_DATA),
    "redis-cli": Program(danger=(DangerRule("", DESTROYS_REMOTELY, words=r"(?i)flushall|flushdb|shutdown|config"),),
        stdin=StdinRule(1, "", "", "h p a n u s")),
    "mongo": Program(danger=DROPS_DOCUMENTS),
    "mongosh": Program(danger=DROPS_DOCUMENTS, stdin=StdinRule(ANY_NUMBER, "f --eval --file")),
})  # fmt: skip
