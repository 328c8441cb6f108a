"""Whose home it is."""


class NoHome(RuntimeError):
    """Nobody's home is named: Remit would write a stranger's settings, key and state."""

    def __init__(self, value: str) -> None:
        said = f"HOME is {value!r}, no absolute path" if value else "HOME is not set"
        super().__init__(f"{said}, so whose settings and state to use is not known; set it, as in HOME=/home/you")
