"""How a command says that it cannot do what was asked."""

FINDINGS, USAGE, REFUSED, UNAVAILABLE, INTEGRITY = 1, 2, 3, 4, 5
INTERRUPT = 130
"""Exit codes: contracts §8."""


class Failure(Exception):
    """A command cannot do what was asked. `fix` is the next step."""

    def __init__(self, code: str, message: str, *, fix: str = "", target: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.target = target
        self.exit_code = exit_code
