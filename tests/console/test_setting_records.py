"""What a person sets in the console stands in the ledger: which setting, from what to what."""

from console.console_world import Browser
from console.test_settings_and_limits import agent, browser, server, write
from gate.driving import Agent, records

__all__ = ["agent", "browser", "server"]
SECRET = "ghp_" + "a1B2" * 9


def changed(agent: Agent) -> list[tuple[str, str, str]]:
    found = [record["metadata"]["dev.remit"] for record in records(agent.cwd, "setting_changed")]
    assert all((body["by"], body["through"]) == ("person", "console") for body in found)
    return [(body["name"], body["from"], body["to"]) for body in found]


def test_each_change_of_a_setting_is_a_record_and_a_refused_one_is_none(agent: Agent, browser: Browser) -> None:
    assert write(browser, "approvals.grant_hours", "2.5").status == 200
    assert write(browser, "approvals.grant_hours", "2.5").status == 200  # nothing changes
    assert write(browser, "approvals.timeout_s", '"soon"').status == 400
    assert write(browser, "run.instructions", f'"use {SECRET}"').status == 200
    assert write(browser, "approvals.grant_hours", "").status == 200
    first, second, third = changed(agent)
    assert (first, third) == (("approvals.grant_hours", "", "2.5"), ("approvals.grant_hours", "2.5", ""))
    assert second[:2] == ("run.instructions", "")
    assert SECRET not in second[2]
    page = browser.get("/r/repo/ledger?event=setting_changed").text
    assert "approvals.grant_hours: default → 2.5" in page


def test_a_change_of_the_mode_is_a_record_too(agent: Agent, browser: Browser) -> None:
    assert browser.post("/r/repo/mode", {"mode": "warn", "shown": "enforce"}).status == 200
    assert browser.post("/r/repo/mode", {"mode": "observe", "shown": "enforce"}).status == 409
    assert changed(agent) == [("mode", '"enforce"', '"warn"')]
