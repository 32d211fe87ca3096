"""The scheduler a site would run: values, problems, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real. These names are for authors of
schedulers and resource managers, and are imported when used. `scheduler.testing` has the contract suite.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
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

_IMPORT = re.compile(r"^    from (\S+) import (\w+) as ", re.MULTILINE)
_PLACE_OF = {name: place for place, name in _IMPORT.findall(Path(__file__).read_text(encoding="utf-8"))}
"""The module of each public name, as type checkers find them above."""

__all__ = sorted(_PLACE_OF)


def __getattr__(name: str) -> object:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'scheduler' has no attribute '{name}'")
    return getattr(import_module(_PLACE_OF[name]), name)
