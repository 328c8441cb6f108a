"""Fleet database: its tables, numbered migrations and transactions, on SQLite and on PostgreSQL.

One machine needs no server: the fleet's and the engine's tables lie in one SQLite file per user, and a claim and its
enqueued work share one transaction. Times are seconds of the database's own clock.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import sqlalchemy as sa
from msgspec import Struct, convert, to_builtins
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from remit.core.machine_paths import FLEET_PATH
from remit.core.python_runtime import prepare_type
from remit.workspace.mounts import list_mounts
from remit_fleet.states import FINAL_STATES

SCHEMA = "remit"
DATABASE_FORMS = "use sqlite:///PATH or postgresql://USER@HOST/NAME"
FILE_LIMITS = {"timeout": "30"}
"""How long a file that another process has locked is waited for, in seconds."""

SERVER_LIMITS = {"connect_timeout": "10", "tcp_user_timeout": "20000"}
"""How long a server that has gone without a word is waited for: seconds, milliseconds (libpq)."""

NETWORK_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "fuse.sshfs",
    "lustre",
)
"""Types of proc_mounts(5) on which locks and shared memory of a database file cannot be relied on."""

Dialect: TypeAlias = Literal["sqlite", "postgresql"]
DRIVERS: dict[str, Dialect] = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql+psycopg": "postgresql",
}
CLOCKS: Mapping[Dialect, sa.ColumnElement[float]] = {
    "sqlite": sa.literal_column("(julianday('now') - 2440587.5) * 86400.0", sa.Double),
    "postgresql": sa.literal_column("extract(epoch FROM clock_timestamp())::float8", sa.Double),
}
"""Seconds by the database's own clock."""

Row: TypeAlias = sa.RowMapping
S = TypeVar("S", bound=Struct)

metadata = sa.MetaData(schema=SCHEMA)


def text(name: str, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=default is None, default=default)


def number(name: str, default: int | None = 0) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=default is None, default=default)


def seconds(name: str, default: float | None = None) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=default is None, default=default)


def flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, default=False)


def document(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON, nullable=True)


repositories = sa.Table(
    "repositories",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *(text("url"), text("target"), number("token_last"), sa.Column("weight", sa.Double, default=1.0)),
    *(flag("paused"), number("train", 8), number("attempts", 3), seconds("stall_s", 300.0), text("model")),
)
plans = sa.Table(
    "plans",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *(text("repository"), text("target"), text("base"), text("by"), seconds("made_at"), document("limits")),
    flag("is_paused"),
    *(document("roles"), document("forecast")),
)
tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("plan", sa.Text, primary_key=True),
    sa.Column("intent", sa.Text, primary_key=True),
    *(text("repository"), text("state", "waiting"), text("why"), number("rank"), text("role"), number("stage")),
    *(document("needs"), document("scope"), text("scope_sha256"), number("attempts"), seconds("estimate_s", 600.0)),
    seconds("tail_s", 0.0),
    *(text("landed"), text("returns_to", None), document("agents"), text("head"), number("revisions")),
    *(number("first_attempt"), document("rivals"), document("finished")),
)
FINAL_NAMES = tuple(sorted(FINAL_STATES))
sa.Index(
    "one_open_task",
    tasks.c.repository,
    tasks.c.intent,
    unique=True,
    sqlite_where=tasks.c.state.not_in(FINAL_NAMES),
    postgresql_where=tasks.c.state.not_in(FINAL_NAMES),
)
holds = sa.Table(
    "holds",
    metadata,
    sa.Column("repository", sa.Text, primary_key=True),
    sa.Column("intent", sa.Text, primary_key=True),
    *(number("attempt"), number("token"), document("scope"), text("scope_sha256"), seconds("since"), seconds("until")),
)
attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("repository", sa.Text, primary_key=True),
    sa.Column("intent", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("workflow_id", sa.Text, unique=True),
    *(text("plan"), number("token"), text("worker"), text("agent"), text("model"), text("role"), document("sessions")),
    *(text("branch"), text("base"), text("wip"), text("head"), text("state", "claimed"), text("ended_as", None)),
    *(text("failure"), seconds("claimed_at"), seconds("started_at", 0.0), seconds("ended_at")),
    *(seconds("last_event_at", 0.0), number("turns"), number("tokens_in"), number("tokens_out"), seconds("usd")),
    *(seconds("reserved_usd", 0.0), number("reserved_tokens"), seconds("reserved_seconds", 0.0)),
)
sa.Index("attempts_of_worker", attempts.c.worker, attempts.c.state)
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *(text("host"), text("boot"), number("slots"), document("agents"), text("version")),
    *(text("flow"), seconds("beat_at", 0.0), flag("draining"), document("repositories"), document("needs_model")),
)
orders = sa.Table(
    "orders",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *(text("repository"), text("intent"), number("attempt", None), text("kind"), text("body"), text("by")),
    *(seconds("at", 0.0), seconds("taken_at"), seconds("done_at")),
)
notes = sa.Table(
    "notes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *(text("repository"), text("plan"), text("from_intent"), text("to_intent"), text("kind"), text("text")),
    *(document("paths"), seconds("at"), number("attempt", None), text("source")),
)
landings = sa.Table(
    "landings",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *(text("repository"), text("target"), text("old"), text("new"), document("members"), text("state", "gathered")),
    *(number("verify_ms", None), document("flaky"), text("why"), seconds("at", 0.0)),
)
landers = sa.Table(
    "landers",
    metadata,
    sa.Column("repository", sa.Text, primary_key=True),
    sa.Column("target", sa.Text, primary_key=True),
    text("workflow"),
)
"""Landings under way: at most one for a target."""

conflicts = sa.Table(
    "conflicts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *(text("repository"), text("kind"), text("a"), text("b"), document("paths"), document("evidence")),
    *(number("rounds"), text("settled_as"), text("by"), text("lesson_id"), seconds("at")),
)
budgets = sa.Table(
    "budgets",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    *(seconds("usd"), number("tokens", None), seconds("seconds")),
    *(seconds("reserved_usd", 0.0), number("reserved_tokens"), seconds("reserved_seconds", 0.0)),
    *(seconds("spent_usd", 0.0), number("spent_tokens"), seconds("spent_seconds", 0.0)),
)
breakers = sa.Table(
    "breakers",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    *(document("failures"), document("recent"), seconds("until"), number("trips"), text("why")),
)
proofs = sa.Table(
    "proofs",
    metadata,
    sa.Column("a_sha256", sa.Text, primary_key=True),
    sa.Column("b_sha256", sa.Text, primary_key=True),
    *(text("answer"), text("witness")),
)
events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    *(seconds("at"), text("repository"), text("plan"), text("intent"), number("attempt", None)),
    *(text("kind"), document("body")),
    sqlite_autoincrement=True,
)
leader = sa.Table(
    "leader", metadata, sa.Column("name", sa.Text, primary_key=True), text("holder"), seconds("until", 0.0)
)
migrations = sa.Table("migrations", metadata, sa.Column("version", sa.Integer, primary_key=True), seconds("at"))


def make_first_tables(connection: sa.Connection) -> None:
    metadata.create_all(connection)


def add_stages(connection: sa.Connection) -> None:
    add_columns(connection, tasks, "head", "revisions")
    add_columns(connection, notes, "attempt", "source")


def add_columns(connection: sa.Connection, table: sa.Table, *names: str) -> None:
    place = connection.get_execution_options().get("schema_translate_map", {}).get(SCHEMA, SCHEMA)
    there = {column["name"] for column in sa.inspect(connection).get_columns(table.name, schema=place)}
    prepared = connection.dialect.identifier_preparer
    where = f"{place}.{table.name}" if place else table.name
    for name in names:
        if name not in there:
            column = table.c[name]
            empty = "''" if isinstance(column.type, sa.Text) else "0"
            default = "" if column.nullable else f" NOT NULL DEFAULT {empty}"
            kind = column.type.compile(connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {where} ADD COLUMN {prepared.quote(name)} {kind}{default}")


def add_repositories_of_workers(connection: sa.Connection) -> None:
    add_columns(connection, workers, "repositories")


def add_forecasts(connection: sa.Connection) -> None:
    add_columns(connection, plans, "forecast")


def add_rivals(connection: sa.Connection) -> None:
    add_columns(connection, tasks, "first_attempt", "rivals", "finished")


def add_models(connection: sa.Connection) -> None:
    add_columns(connection, workers, "needs_model")
    add_columns(connection, repositories, "model")


def add_reserved_tokens(connection: sa.Connection) -> None:
    add_columns(connection, attempts, "reserved_tokens")


MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (
    make_first_tables,
    add_stages,
    add_repositories_of_workers,
    add_forecasts,
    add_rivals,
    add_reserved_tokens,
    add_models,
)
"""The steps from an empty database to the present tables; a step that was released never changes."""

MIGRATION_LOCK = 0x52454D4954  # PostgreSQL's advisory lock of one migrating process


AWAY_ERRORS = (DBAPIError, PoolTimeout)
"""Errors of a database that does not answer now: trying again helps."""


class StoreError(RuntimeError):
    """Error for an unusable fleet database, with the next step after `hint: `. Retrying does not help."""


class Store:
    """Open fleet database. `url` is the address opened by the engine."""

    def __init__(self, url: str) -> None:
        try:
            made = sa.make_url(url)
        except (ArgumentError, ValueError) as error:  # a password stands before the last @
            raise StoreError(f"{url.rpartition('@')[2]!r} is no address of a database: {DATABASE_FORMS}") from error
        if made.drivername in ("postgres", "postgresql"):
            made = made.set(drivername="postgresql+psycopg")
            made = made.update_query_dict({k: v for k, v in SERVER_LIMITS.items() if k not in made.query})
        if made.drivername not in DRIVERS:
            raise StoreError(f"{made.drivername!r} is no database for a fleet: {DATABASE_FORMS}")
        self.url = made.render_as_string(hide_password=False)
        self.dialect = DRIVERS[made.drivername]
        if self.dialect == "sqlite":
            self.path = Path(made.database or "")
            require_local_folder(self.path)
            engine = sa.create_engine(made if "timeout" in made.query else made.update_query_dict(FILE_LIMITS))
            event.listen(engine, "connect", prepare_sqlite)
            event.listen(engine, "begin", begin_sqlite)
            engine = engine.execution_options(schema_translate_map={SCHEMA: None})
        else:
            engine = sa.create_engine(made, pool_pre_ping=True, pool_size=4)
        self.engine = engine
        self.file: tuple[int, int] | None = None
        self.reading = engine.execution_options(remit_reads=True)
        self.clock = CLOCKS[self.dialect]

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Begin a transaction that commits at the end. On SQLite the transaction holds the single write lock from the
        start.
        """
        self.require_same_file()
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        self.require_same_file()
        with self.reading.connect() as connection:
            yield connection

    def now(self, connection: sa.Connection) -> float:
        return float(connection.execute(sa.select(self.clock)).scalar_one())

    def rows(self, query: sa.Select[Any]) -> Sequence[Row]:
        with self.read() as connection:
            return connection.execute(query).mappings().all()

    def has_lost_file(self) -> bool:
        return self.file is not None and read_file_id(self.path) != self.file

    def require_same_file(self) -> None:
        """Raise StoreError once the opened file is replaced or gone, because no other process sees its contents."""
        if self.has_lost_file():
            raise StoreError(
                f"the fleet database {str(self.path)!r} was deleted or replaced while this process used it"
                "\nhint: `remit fleet rebuild` in each repository, then start the worker again"
            )

    def migrate(self) -> None:
        """Migrate the tables to this version. Raises StoreError if a newer Remit has migrated them, or if the tables
        are older and this role must not change them.
        """
        if self.read_version() < len(MIGRATIONS):
            self.change_tables()
        self.file = read_file_id(self.path) if self.dialect == "sqlite" else None

    def change_tables(self) -> None:
        try:
            with self.write() as connection:
                if self.dialect == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
                    connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
                migrations.create(connection, checkfirst=True)
                done = self.require_version(connection)
                for version, step in enumerate(MIGRATIONS[done:], done + 1):
                    step(connection)
                    connection.execute(sa.insert(migrations).values(version=version, at=self.clock))
        except ProgrammingError as error:
            raise StoreError(
                f"the fleet database is of version {self.read_version()}, this Remit needs {len(MIGRATIONS)}, and this "
                "role may not change tables: run `remit fleet migrate` as their owner"
            ) from error

    def read_version(self) -> int:
        """Return the version of the tables, 0 without any. Raises StoreError for a version unknown to this Remit."""
        with self.read() as connection:
            schema = None if self.dialect == "sqlite" else SCHEMA
            if not sa.inspect(connection).has_table(migrations.name, schema=schema):
                return 0
            return self.require_version(connection)

    def may_change_tables(self) -> bool:
        """Return whether this role owns the tables of the fleet and of the engine."""
        if self.dialect == "sqlite":
            return True
        with self.read() as connection:
            asked = sa.select(sa.func.has_schema_privilege(SCHEMA, "CREATE"))
            return bool(connection.execute(asked).scalar())

    def grant_worker(self, role: str) -> None:
        """Let a role read and write the rows of the fleet, and change no table. Raises StoreError on SQLite."""
        if self.dialect == "sqlite":
            raise StoreError("a file of SQLite has no roles: whoever can write it can do everything")
        name, schema = self.engine.dialect.identifier_preparer.quote(role), SCHEMA
        with self.write() as connection:
            for words in (
                f"GRANT USAGE ON SCHEMA {schema} TO {name}",
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {name}",
                f"REVOKE INSERT, UPDATE, DELETE ON {schema}.{migrations.name} FROM {name}",
                f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name}",
            ):
                connection.exec_driver_sql(words)

    def require_version(self, connection: sa.Connection) -> int:
        """Return the version of the tables. Raises StoreError if the version is newer than this Remit."""
        done = connection.execute(sa.select(sa.func.max(migrations.c.version))).scalar() or 0
        if done > len(MIGRATIONS):
            raise StoreError(
                f"the fleet database is of version {done}, and this Remit knows {len(MIGRATIONS)}"
                "\nhint: update Remit on this machine"
            )
        return done

    def close(self) -> None:
        self.engine.dispose()


def default_database(home: Path) -> str:
    return f"sqlite:///{home / FLEET_PATH}"


def open_store(url: str | None, home: Path) -> Store:
    """Open and migrate a fleet database; without a URL, the user's embedded database. Raises StoreError, OSError."""
    if url is None:
        (home / FLEET_PATH).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store(url or default_database(home))
    try:
        store.migrate()
    except BaseException:
        store.close()
        raise
    if store.dialect == "sqlite":
        store.path.chmod(0o600)
    return store


def require_local_folder(path: Path, known: Iterable[tuple[str, str]] | None = None) -> None:
    """Raise StoreError for a file on a network file system, because SQLite's locks do not work on network shares."""
    folder = str(path.parent.resolve())
    listed = list_mounts() if known is None else known
    mounts = [item for item in listed if f"{folder}/".startswith(f"{item[0].rstrip('/')}/")]
    where, kind = max(mounts, key=lambda item: len(item[0]), default=("", ""))
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{str(path)!r} is on {where!r}, a network file system ({kind}), where a database file gets damaged: "
            "name a PostgreSQL with `--database postgresql://…`, or a folder on a disk of this machine"
        )


def read_file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the `begin` event begins
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")


def begin_sqlite(connection: sa.Connection) -> None:
    reads = connection.get_execution_options().get("remit_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


# -- rows and values ------------------------------------------------------------------------------------------


def read_values(connection: sa.Connection, kind: type[S], query: sa.Select[Any]) -> tuple[S, ...]:
    """Return the rows of the query as values of a class whose fields are named after the columns."""
    return tuple(value_of(row, kind) for row in connection.execute(query).mappings())


def value_of(row: Mapping[Any, Any], kind: type[S]) -> S:
    """Return the row as a value; an empty column, such as one that an older worker does not know, as its default."""
    known = kind.__struct_fields__
    return convert({str(k): v for k, v in row.items() if k in known and v is not None}, prepare_type(kind))


def row_of(value: Struct, table: sa.Table) -> dict[str, Any]:
    """Return the columns of a value, documents as JSON holds them."""
    return {k: v for k, v in to_builtins(value).items() if k in table.c}


def become_leader(store: Store, connection: sa.Connection, name: str, holder: str, for_s: float) -> bool:
    """Take or renew the leadership of this name. Return False while a different holder's leadership has not expired."""
    now = store.now(connection)
    taken = (
        sa.update(leader)
        .where(leader.c.name == name, sa.or_(leader.c.holder == holder, leader.c.until < now))
        .values(holder=holder, until=now + for_s)
    )
    if connection.execute(taken).rowcount:
        return True
    if connection.execute(sa.select(leader.c.name).where(leader.c.name == name)).first():
        return False
    connection.execute(sa.insert(leader).values(name=name, holder=holder, until=now + for_s))
    return True
