"""The intents file as it was when a call was judged: records name it by its hash."""

from remit.core.contents import sha256
from remit.core.intent import Intent, IntentsDocument
from remit.ledger.index import Index
from remit.workspace.contents import ContentStore, batch
from remit.workspace.git import Git, GitError
from remit.workspace.intents_file import parse_intents
from remit.workspace.place import FOLDER

FILE = f"{FOLDER}/active_intents.yaml"
MOST_VERSIONS = 300


class IntentsThen:
    """The versions of the intents file that can still be had. `now` is the one in force."""

    def __init__(self, git: Git, index: Index, store: ContentStore, now: IntentsDocument | None) -> None:
        self.git = git
        self.index = index
        self.store = store
        self.now = now
        self.known: dict[str, IntentsDocument | None] = {now.sha256: now} if now else {}
        self.committed: dict[str, bytes] | None = None

    def intent(self, intent_id: str, digest: str) -> Intent | None:
        """The intent in the version with that SHA-256; None where that version is gone, or had no such intent."""
        return named(self.version(digest), intent_id) if digest else None

    def intent_now(self, intent_id: str) -> Intent | None:
        """The intent as it is now."""
        return named(self.now, intent_id)

    def version(self, digest: str) -> IntentsDocument | None:
        """The file with that SHA-256: from what was kept of it, else from the commits."""
        if digest not in self.known:
            content = self.kept(digest) or self.in_commits().get(digest)
            self.known[digest] = parse_intents(content) if content is not None else None
        return self.known[digest]

    def kept(self, digest: str) -> bytes | None:
        """The content, where a recorded change left it."""
        blobs = (c.after_blob for c in self.index.changes_leaving(digest) if c.path == FILE and c.after_blob)
        return next((found for blob in blobs if (found := self.store.load(blob)) is not None), None)

    def in_commits(self) -> dict[str, bytes]:
        """The contents that the newest commits gave the file, by SHA-256."""
        if self.committed is None:
            self.committed = {sha256(content): content for content in self.commits_of_file()}
        return self.committed

    def commits_of_file(self) -> list[bytes]:
        """Every version of the file that HEAD's history has, the newest 300."""
        try:
            names = self.git.text("log", "--format=%H", "-n", str(MOST_VERSIONS), "--", FILE).split()
            asked = "".join(f"{name}:./{FILE}\n" for name in names)
            out = self.git.run("cat-file", "--batch", stdin=asked.encode()) if names else b""
        except GitError:
            return []
        return [content for content in batch(out) if content is not None]


def named(document: IntentsDocument | None, intent_id: str) -> Intent | None:
    """The intent of that id."""
    return next((i for i in document.intents if i.id == intent_id), None) if document else None
