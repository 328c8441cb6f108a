"""The records that commands read: the index of the logs that lie here, and the logs of other machines and tools."""

from collections.abc import Iterable, Iterator
from typing import Any

from remit.core.loose import mapping
from remit.core.record import KEY
from remit.gate.ledger_check import proved_records
from remit.gate.site import Site
from remit.gate.witness import trusted_keys
from remit.ledger.foreign import foreign_records
from remit.ledger.index import Index
from remit.ledger.machine_logs import local_names
from remit.workspace.tracked import others as others_tracked


def own_index(gate: Site) -> Index:
    """The index of the logs that lie here, caught up."""
    index = Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder)
    index.catch_up()
    return index


def foreign(gate: Site) -> list[dict[str, Any]]:
    """The records of other machines and older tools, oldest first."""
    workspace = gate.workspace
    config = gate.governing.config
    keys = trusted_keys(gate.environment.home, config) if config.ledger.trusted_keys else ()
    tracked = others_tracked(workspace.tracked_logs, workspace.state)
    own = local_names(workspace.log_folder, gate.recorder.log.name)
    return foreign_records(workspace.view_path, workspace.log_folder, own, keys, tracked)


def marked(gate: Site, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same records; what another machine wrote in this repository is `unproved` without a trusted key."""
    own, proved = gate.recorder.log.name, proved_records(gate.recorder, gate.governing.config)
    for document in documents:
        body = mapping(document["metadata"].get(KEY))
        chain = mapping(body.get("chain"))
        log, seq = chain.get("log"), chain.get("seq")
        if log != own and not (isinstance(seq, int) and seq < proved.get(str(log), 0)):
            body["unproved"] = True
        yield document


def by_id(gate: Site, named: str) -> list[dict[str, Any]]:
    """The records whose id is `named`, else those whose id begins with, or holds it."""
    with own_index(gate) as index:
        own = list(marked(gate, index.by_id(named) or index.holding_id(named)))
    found = [d for d in (*own, *foreign(gate)) if named in str(d["id"])]
    return [d for d in found if d["id"] == named] or found
