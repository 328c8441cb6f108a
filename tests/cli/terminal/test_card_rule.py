"""The rule of a wider yes, edited on the card of a run in the terminal."""

from pathlib import Path

from cli.terminal.terminals import Terminal
from cli.terminal.test_screen import DONE, WRITE, is_asked, start, terminal
from gate.driving import governed, records
from remit_agent.faces.terminal.screen import QUIET_S

__all__ = ["terminal"]


def test_e_puts_the_rule_into_the_prompt_and_it_is_allowed_as_edited(terminal: Terminal, repository: Path) -> None:
    governed(repository)
    start(terminal, repository, [[WRITE], [DONE]])
    terminal.write("go")
    terminal.press("Enter")
    terminal.wait_to_see(is_asked)
    terminal.pass_time(2 * QUIET_S)
    terminal.write("e")
    terminal.wait_to_see("why not: s=new.py")
    assert not (repository / "new.py").exists()
    terminal.pass_time(2 * QUIET_S)
    terminal.press("BSpace", "BSpace")
    terminal.write("*")
    terminal.press("Enter")
    terminal.wait_to_see("All of it is done.")
    assert (repository / "new.py").read_text() == "x = 1\n"
    [answer] = records(repository, "approval_answered")
    approval = answer["metadata"]["dev.remit"]["approval"]
    assert (approval["extent"], approval["grant"]["rule"]) == ("session", "new.*")
