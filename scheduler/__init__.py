"""The scheduler a site would run: values, problems, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real. These names are for authors of
schedulers and resource managers, and are imported when used. `scheduler.testing` has the contract suite.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem as ConsumableNodesProblem
    from scheduler.free_nodes.consumable_problem import Placer as Placer
    from scheduler.free_nodes.problem import FreeNodesProblem as FreeNodesProblem
    from scheduler.mapping.problem import MappingProblem as MappingProblem
    from scheduler.messages import UserError as UserError
    from scheduler.model import ON_NODES as ON_NODES
    from scheduler.model import Assignment as Assignment
    from scheduler.model import Assignments as Assignments
    from scheduler.model import DispatchOrder as DispatchOrder
    from scheduler.model import Job as Job
    from scheduler.model import JobId as JobId
    from scheduler.model import MachineReading as MachineReading
    from scheduler.model import NodeReading as NodeReading
    from scheduler.model import NodeSchedule as NodeSchedule
    from scheduler.model import RunId as RunId
    from scheduler.model import Schedule as Schedule
    from scheduler.model import Share as Share
    from scheduler.model import Site as Site
    from scheduler.model import Start as Start
    from scheduler.node_request import Gpus as Gpus
    from scheduler.node_request import Node as Node
    from scheduler.node_request import Partition as Partition
    from scheduler.node_request import Request as Request
    from scheduler.node_set import NodeSet as NodeSet
    from scheduler.ports import Clock as Clock
    from scheduler.ports import Dispatcher as Dispatcher
    from scheduler.ports import JobArrived as JobArrived
    from scheduler.ports import MonitorNews as MonitorNews
    from scheduler.ports import Notice as Notice
    from scheduler.ports import RunEnded as RunEnded
    from scheduler.ports import RunLost as RunLost
    from scheduler.ports import RunPreempted as RunPreempted
    from scheduler.ports import Scheduler as Scheduler
    from scheduler.ports import TimePassed as TimePassed
    from scheduler.problem import Running as Running
    from scheduler.registry import resolve as resolve
    from scheduler.resource_manager import OnFreeNodes as OnFreeNodes
    from scheduler.resource_manager import OnMachines as OnMachines
    from scheduler.resource_manager import OnSharedNodes as OnSharedNodes
    from scheduler.resource_manager import ResourceManager as ResourceManager
    from scheduler.rules import Kind as Kind
    from scheduler.rules import ScheduleRejected as ScheduleRejected
    from scheduler.rules import Violation as Violation
    from scheduler.time_shared.problem import TimeSharedProblem as TimeSharedProblem

_NAMES = {
    "messages": "UserError",
    "model": "ON_NODES Assignment Assignments DispatchOrder Job JobId MachineReading "
    "NodeReading NodeSchedule RunId Schedule Share Site Start",
    "node_request": "Gpus Node Partition Request",
    "node_set": "NodeSet",
    "rules": "Kind ScheduleRejected Violation",
    "problem": "Running",
    "ports": "Clock Dispatcher JobArrived MonitorNews Notice RunEnded RunLost RunPreempted Scheduler "
    "TimePassed",
    "resource_manager": "OnFreeNodes OnMachines OnSharedNodes ResourceManager",
    "registry": "resolve",
    "mapping.problem": "MappingProblem",
    "free_nodes.problem": "FreeNodesProblem",
    "free_nodes.consumable_problem": "ConsumableNodesProblem Placer",
    "time_shared.problem": "TimeSharedProblem",
}
"""The public names by module."""

__all__ = sorted(" ".join(_NAMES.values()).split())


def __getattr__(name: str) -> object:
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"scheduler.{module}"), name)
    raise AttributeError(f"module 'scheduler' has no attribute '{name}'")
