"""The contract that every scheduler keeps, as a test for plug-in authors.

from scheduler.testing import check_contract

def test_my_scheduler_keeps_the_contract():
    check_contract(MyScheduler, kind="free-nodes")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.ports import AnyScheduler
from scheduler.rules import Kind
from scheduler.testing.consumable_nodes import ConsumableNodesContract
from scheduler.testing.examination import Caller, Contract, Examination, Here
from scheduler.testing.examination import ContractBroken as ContractBroken
from scheduler.testing.identical_nodes import FreeNodesContract
from scheduler.testing.mapping import MappingContract
from scheduler.testing.time_shared import TimeSharedContract

CONSUMABLE = "consumable-nodes"

CONTRACTS: dict[str, type[Contract[Any]]] = {
    **{contract.kind: contract for contract in (MappingContract, FreeNodesContract, TimeSharedContract)},
    CONSUMABLE: ConsumableNodesContract,
}
"""By kind; for free nodes also with problems on nodes of which jobs request parts."""


def contract_for(name: str) -> type[Contract[Any]]:
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

    `kind` is "mapping", "free-nodes", "consumable-nodes" (free nodes of which jobs request parts) or
    "shared-nodes"; without it, the one that `make` declares, else mapping. The problems are the same every
    time. `call` may limit the time of each decision (see `Caller`). Raises ContractBroken with the smallest
    problems that break a rule.
    """
    contract = contract_for(kind or getattr(make, "kind", None) or Kind.MAPPING)()
    Examination(lambda: Here(make(), contract, call), contract, examples).run()
