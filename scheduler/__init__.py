"""The scheduler a site would run: values, problems, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real. These names are for authors of
schedulers and resource managers, and are imported when used. `scheduler.testing` has the contract suite.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from scheduler.messages import UserError

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
    from scheduler.free_nodes.placer import Placer
    from scheduler.free_nodes.problem import FreeNodesProblem
    from scheduler.mapping.problem import MappingProblem
    from scheduler.model import (
        ON_NODES,
        Assignment,
        Assignments,
        DispatchOrder,
        Job,
        JobId,
        MachineReading,
        NodeReading,
        NodeSchedule,
        RunId,
        Schedule,
        Share,
        Site,
        Start,
    )
    from scheduler.node_request import Gpus, Node, Partition, Request
    from scheduler.node_set import NodeSet
    from scheduler.notices import (
        JobArrived,
        MonitorNews,
        Notice,
        RunEnded,
        RunLost,
        RunPreempted,
        TimePassed,
    )
    from scheduler.ports import Clock, Dispatcher, Scheduler
    from scheduler.problem import Running
    from scheduler.registry import resolve
    from scheduler.resource_manager import OnFreeNodes, OnMachines, OnSharedNodes, ResourceManager
    from scheduler.rules import Kind, ScheduleRejected, Violation
    from scheduler.time_shared.problem import TimeSharedProblem

__all__ = [
    "ON_NODES",
    "Assignment",
    "Assignments",
    "Clock",
    "ConsumableNodesProblem",
    "DispatchOrder",
    "Dispatcher",
    "FreeNodesProblem",
    "Gpus",
    "Job",
    "JobArrived",
    "JobId",
    "Kind",
    "MachineReading",
    "MappingProblem",
    "MonitorNews",
    "Node",
    "NodeReading",
    "NodeSchedule",
    "NodeSet",
    "Notice",
    "OnFreeNodes",
    "OnMachines",
    "OnSharedNodes",
    "Partition",
    "Placer",
    "Request",
    "ResourceManager",
    "RunEnded",
    "RunId",
    "RunLost",
    "RunPreempted",
    "Running",
    "Schedule",
    "ScheduleRejected",
    "Scheduler",
    "Share",
    "Site",
    "Start",
    "TimePassed",
    "TimeSharedProblem",
    "UserError",
    "Violation",
    "resolve",
]
_MODULES = (
    *("model", "notices", "node_request", "node_set", "rules", "problem", "ports", "resource_manager"),
    *("registry", "mapping.problem", "free_nodes.problem", "free_nodes.consumable_problem"),
    *("free_nodes.placer", "time_shared.problem"),
)
"""The lighter ones first: of those that a name needs, some have compiled code."""


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            if name in (found := vars(import_module(f"scheduler.{module}"))):
                return found[name]
    raise AttributeError(f"module 'scheduler' has no attribute '{name}'")
