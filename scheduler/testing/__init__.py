"""The contract that every scheduler keeps, as a test for plug-in authors.

from scheduler.testing import check_contract

def test_my_scheduler_keeps_the_contract():
    check_contract(MyScheduler, kind="free-nodes")
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.ports import AnyScheduler
from scheduler.rules import Kind
from scheduler.testing import clusters, mapping, rigid, time_shared
from scheduler.testing.examination import Caller, Contract, Examination, LocalCandidate
from scheduler.testing.examination import ContractBroken as ContractBroken

CONSUMABLE = "consumable-nodes"

CONTRACTS: dict[str, Contract] = {
    Kind.MAPPING: Contract(Kind.MAPPING, mapping.mapping_outlines(), mapping.larger_on_machines()),
    Kind.FREE_NODES: Contract(Kind.FREE_NODES, rigid.free_nodes_outlines(), rigid.larger_on_free_nodes()),
    CONSUMABLE: Contract(Kind.FREE_NODES, rigid.consumable_outlines(), rigid.larger_on_consumable_nodes()),
    Kind.TIME_SHARED: Contract(
        Kind.TIME_SHARED, time_shared.time_shared_outlines(), time_shared.larger_on_shared_nodes()
    ),
    Kind.CLUSTERS: Contract(Kind.CLUSTERS, clusters.clusters_outlines(), clusters.more_clusters()),
}
"""The contract for each kind; free nodes also have problems on consumable nodes."""


def contract_for(name: str) -> Contract:
    """The contract with that name, or an alias of it. Raises ValueError."""
    return CONTRACTS[CONSUMABLE if name.replace("_", "-") == CONSUMABLE else Kind(name)]


def check_contract(
    make: Callable[[], AnyScheduler],
    kind: Kind | str | None = None,
    *,
    examples: int = 200,
    call: Caller = lambda function: function(),
) -> None:
    """Ask schedulers made by `make`, a class or function, many small problems and some larger ones.

    `kind` is "mapping", "free-nodes", "consumable-nodes" (free nodes of which jobs request parts),
    "shared-nodes" or "clusters"; without it, the one that `make` declares, else mapping. The problems are the
    same every time. `call` may limit the time of each decision (see `Caller`). Raises ContractBroken with the
    smallest problems that break a rule.
    """
    contract = contract_for(kind or getattr(make, "kind", None) or Kind.MAPPING)
    Examination(lambda: LocalCandidate(make(), call), contract, examples).run()
