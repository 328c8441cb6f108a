"""What only a person may do. The class of an act says how clearly a person has to be seen."""

from enum import Enum
from typing import Literal, TypeAlias

ActClass: TypeAlias = Literal["loosen", "neutral", "tighten"]
"""Loosen: a person, clearly. Neutral: also who is unclear, at a terminal. Tighten: whoever is no agent."""


class Act(Enum):
    """An act of a person: its words, for a sentence such as `… is for a person`, and its class."""

    LOWER_MODE = "lowering the mode", "loosen"
    RAISE_MODE = "raising the mode", "tighten"
    SAY_YES = "saying yes for a person", "loosen"
    SAY_NO = "saying no for a person", "tighten"
    ANSWER = "answering for a person", "loosen"
    REVOKE_GRANT = "revoking a grant", "tighten"
    TRUST = "trusting a repository's commands", "loosen"
    NAME_DATA = "naming runtime data", "loosen"
    DISTRUST = "taking trust back", "tighten"
    BEGIN = "`remit init`", "tighten"
    CHANGE_WIRING = "`remit init` in a governed folder", "loosen"
    MEND_WIRING = "`remit doctor --fix`", "neutral"
    UNINSTALL = "`remit uninstall`", "loosen"
    CHANGE_SETTINGS = "changing settings", "loosen"
    STORE_KEY = "storing a key", "loosen"
    SET_PIN = "setting or clearing the PIN", "loosen"
    SERVE = "opening the console", "loosen"
    STOP_SERVING = "stopping the console", "tighten"
    PAIR = "pairing a browser", "loosen"
    UNPAIR = "unpairing a browser", "tighten"
    APPLY_PATCH = "applying a patch", "loosen"
    RESTORE = "restoring files", "loosen"
    PIN_POINT = "pinning a restore point", "tighten"
    REPAIR_LEDGER = "`remit ledger repair`", "loosen"
    PRUNE_LEDGER = "`remit ledger prune`", "loosen"
    MAKE_INTENT = "making an intent", "loosen"
    EDIT_INTENT = "editing an intent", "loosen"
    MOVE_INTENT = "changing an intent's status", "neutral"
    DELETE_INTENT = "deleting an intent", "loosen"
    BIND_INTENT = "giving an intent to a session", "loosen"
    START_AGENTS = "starting agents", "loosen"
    STOP_AGENTS = "stopping agents", "tighten"
    STEER = "steering an agent", "neutral"
    MOVE_PLAN = "moving a plan or a task", "neutral"
    TAKE_TASK = "taking over a task or giving it back", "neutral"
    RUN_WORKER = "running a worker", "tighten"
    CHECK_PLAN = "checking a plan", "tighten"
    READ_PLANS = "reading plans", "tighten"
    NAME_INTENT = "`remit exec --intent` or `--session`", "tighten"
    ORDER_TASK = "giving an order to a plan", "loosen"
    RAISE_BUDGET = "raising a budget", "loosen"
    LAND = "landing", "loosen"
    UNDO_LANDING = "undoing a landing", "loosen"
    CHECK_FLEET = "checking the fleet", "neutral"
    CHANGE_FLEET = "changing the fleet's database", "loosen"
    REPORT_WRONG = "reporting a decision", "neutral"
    REVIEW = "reviewing changes", "neutral"
    RUN_WITHOUT_FLOOR = "`remit run --without-floor`", "loosen"
    SHOW_SECRETS = "`remit exec --show`", "loosen"
    TRY_REDACTION = "trying the redaction", "neutral"

    def __init__(self, words: str, kind: ActClass) -> None:
        self.words = words
        self.kind = kind
