"""Roles of attempts: architect, builder, tester and reviewer, and the roles of `remit.toml`."""

from remit.core.config import AgentRole, OrchestratorSettings

TEST_PATHS = (
    *("tests/**", "test/**", "spec/**", "**/__tests__/**", "**/test_*.*", "**/*_test.*", "**/*.test.*"),
    *("**/*.spec.*", "**/conftest.py"),
)
DEFAULT_ROLES = (
    AgentRole("architect", paths=("docs/**",), effects=("read", "write"), max_usd=2.0, max_minutes=30),
    AgentRole("builder"),
    AgentRole("tester", paths=TEST_PATHS, max_usd=2.0, max_minutes=30),
    AgentRole("reviewer", paths=(), effects=("read",), max_usd=1.0, max_minutes=15),
)
"""Architect: reads everything, writes pages, and may propose intents. Builder: writes the intent's whole scope. Tester:
writes the tests in it, and reports faults instead of mending them. Reviewer: reads only.
"""
ROLE_DUTIES = {
    "architect": "Read what is there, and write down how the work is to be done: in pages that you may change, and in "
    "a note (post_note) to your own intent. The builder after you works by it.",
    "builder": "Change only files in its scope, run what its criteria ask for, and stop when it is done.",
    "tester": "Test the work of the stages before you: write and run tests in the scope. Mend nothing else: what is "
    "wrong goes back to the builder by submit_review.",
    "reviewer": "Judge the work of the stages before you against the intent. You change nothing.",
}
"""What an attempt in a shipped role is told to do; another role works as a builder does."""

MAX_INSTRUCTION_BYTES = 16_384


class RoleError(ValueError):
    """Error for the name of a role that is neither built in nor in `remit.toml`."""

    def __init__(self, name: str, known: tuple[str, ...], said_by: str = "") -> None:
        where = f" in the chain of {said_by}" if said_by else ""
        super().__init__(f"there is no role {name[:80]!r}{where}; the roles are {', '.join(known)}")
        self.name = name


def list_roles(settings: OrchestratorSettings) -> dict[str, AgentRole]:
    """Return the roles by name; a role of `remit.toml` replaces the built-in role of its name. Raises RoleError."""
    roles = {role.name: role for role in (*DEFAULT_ROLES, *settings.roles)}
    for role in roles.values():
        for name in role.chain:
            if name not in roles:
                raise RoleError(name, tuple(roles), role.name)
    return roles


def is_reviewer(role: AgentRole) -> bool:
    """Return whether the role writes no file, and its verdict is its only result."""
    return not {"write", "delete"} & {*role.effects} or not role.paths


def find_role(settings: OrchestratorSettings, name: str) -> AgentRole:
    """Return a role. Raises RoleError."""
    roles = list_roles(settings)
    if name not in roles:
        raise RoleError(name, tuple(roles))
    return roles[name]
