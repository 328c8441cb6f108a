"""Ids as people type them: whole, by their beginning, or by the part that a view shows. One resolver for all kinds."""

from collections.abc import Iterable, Sequence
from typing import Any

from remit.cli.failure import Failure
from remit.cli.sources import by_id, foreign, own_index
from remit.core.identifiers import fitting_ids
from remit.core.record import KEY
from remit.core.text import shown
from remit.gate.site import Site

MAX_CANDIDATES = 10
MAX_SESSIONS = 1000
MAX_SEARCHED = 20_000
"""The newest records, among which calls, questions and snapshots are looked for."""


def choose_id(kind: str, given: str, known: Iterable[str], listing: str) -> str:
    """Return the id that is meant. Raises Failure: with the candidates where several fit, with `listing` for none."""
    found = fitting_ids(given, known)
    if len(found) == 1:
        return found[0]
    if not found:
        raise Failure("NOT_FOUND", f"no {kind} {given!r}", fix=f"{listing} lists them", target=given)
    raise Failure(
        "AMBIGUOUS", f"{given!r} fits {len(found)} {kind}s: {few(found)}", fix="give more of it", target=given
    )


def few(names: Sequence[str]) -> str:
    """Return the first of some ids, and how many more there are."""
    more = f" and {len(names) - MAX_CANDIDATES} more" if len(names) > MAX_CANDIDATES else ""
    return ", ".join(shown(name, 80) for name in names[:MAX_CANDIDATES]) + more


def find_session(site: Site, given: str) -> str:
    """Return the session whose id is `given` or begins so, in any log. Raises Failure."""
    with own_index(site) as index:
        own = index.values("session_id", MAX_SESSIONS, prefix=given)
    others = (str(d["metadata"][KEY].get("session_id") or "") for d in foreign(site)) if given not in own else ()
    heard = [key.session_id for key in site.state.recent_sessions(MAX_SESSIONS)]
    try:
        return choose_id("session", given, [*own, *heard, *filter(None, others)], "`remit log --event session_start`")
    except Failure as failure:
        if failure.code == "NOT_FOUND" and heard:
            failure.fix = f"the newest: {few(heard)}"
        raise


def find_record(site: Site, given: str) -> dict[str, Any]:
    """Return the record of that id, or the one that tells most of the call, question or snapshot of that id.

    Raises Failure.
    """
    found = {str(document["id"]): document for document in by_id(site, given)}
    if found:
        return found[choose_id("record", given, found, "`remit log`")]
    about = records_by_subject(site, given)
    return about[choose_id("record, call, question or snapshot", given, about, "`remit log`")]


def records_by_subject(site: Site, given: str) -> dict[str, dict[str, Any]]:
    """Return, by the id of each call, question and snapshot, the record that tells most of it.

    Raises Failure where a session or an intent is meant, which have views of their own.
    """
    if given in site.governing.intents.ids:
        raise Failure("NOT_FOUND", f"{given} is an intent", fix=f"`remit intent show {given}`", target=given)
    with own_index(site) as index:
        sessions = index.values("session_id", 1, prefix=given)
        newest = index.find(limit=MAX_SEARCHED)
    if sessions:
        raise Failure("NOT_FOUND", f"{given!r} is a session", fix=f"`remit session {given}`", target=given)
    about: dict[str, dict[str, Any]] = {}
    for document in newest:  # the newest first: a question's answer before it, a call's result before its beginning
        body: dict[str, Any] = document["metadata"][KEY]
        subject = subject_of(body)
        if subject not in about or body.get("event") in ("tool_use", "denied"):
            about[subject] = document
    about.pop("", None)
    return about


def subject_of(body: dict[str, Any]) -> str:
    """Return the id of what a record is about: a question, a snapshot, or a call."""
    if approval := body.get("approval"):
        return str(approval.get("id") or "")
    if body.get("event") == "snapshot":
        return str(body.get("id") or "")
    call: dict[str, Any] = body.get("call") or {}
    return str(call.get("id") or "")
