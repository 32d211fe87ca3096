"""The trace of Alibaba's GPU cluster of 2023: CSV files of nodes and of pods (clusterdata, gpu-v2023).

<https://github.com/alibaba/clusterdata>
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.node_request import Gpus, Request
from scheduler.node_resources.state import Node
from site_db.jobs.logs.log_file import BadLog, open_log

MILLI = 1000


@dataclass(frozen=True, slots=True)
class Pod:
    """A job of one task. `gpu_spec` is the file's text: the models that will do, like `A10|T4`, or any."""

    name: str
    request: Request
    gpu_spec: str

    @property
    def gpu_milli(self) -> int:
        """The GPUs that it requests, in thousandths."""
        gpus = self.request.gpus
        return 0 if gpus is None else gpus.count * round(MILLI * gpus.share)


def read_nodes(path: Path) -> dict[str, Node]:
    """The nodes by name. Raises BadLog with file and line."""
    nodes = {}
    for row in read_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        gpus = (row["model"],) * row.number("gpu")
        nodes[row["sn"]] = Node(row.number("cpu_milli") / MILLI, row.number("memory_mib"), gpus)
    return nodes


def read_pods(path: Path) -> dict[str, Pod]:
    """The pods by name, in order of the file. Raises BadLog with file and line."""
    pods = {}
    for row in read_rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        request = Request(
            cores=row.number("cpu_milli") / MILLI, memory_mib=row.number("memory_mib"), gpus=_gpus(row)
        )
        pods[row["name"]] = Pod(row["name"], request, row.get("gpu_spec"))
    return pods


def _gpus(row: Row) -> Gpus | None:
    count, milli = row.number("num_gpu"), row.number("gpu_milli")
    if count == 0:
        return None
    if not 0 < milli <= MILLI or (count > 1 and milli < MILLI):
        expected = "1 to 1000 of one GPU, or 1000 of each of several"
        raise row.mistake(f"gpu_milli is {milli} for {count} GPUs; expected {expected}")
    return Gpus(count, milli / MILLI, frozenset(filter(None, row.get("gpu_spec").split("|"))))


class Row:
    """A row of a CSV file with a header."""

    def __init__(self, values: Mapping[str, str], where: str) -> None:
        self._values, self._where = values, where

    def __getitem__(self, column: str) -> str:
        return self._values[column]

    @property
    def columns(self) -> list[str]:
        return list(self._values)

    def get(self, column: str) -> str:
        """Empty if there is no such column."""
        return self._values.get(column) or ""

    def number(self, column: str) -> int:
        """A whole number of at least 0. Raises BadLog."""
        text = self._values[column]
        if not (text.isascii() and text.isdigit()):
            raise self.mistake(f"{column} is '{text}'; expected a whole number, 0 or greater")
        return int(text)

    def mistake(self, sentence: str) -> BadLog:
        return BadLog(f"{self._where}: {sentence}")


def read_rows(path: Path, required: Iterable[str]) -> Iterator[Row]:
    """The rows of a CSV file, which may be compressed. Raises BadLog with file and line."""
    with open_log(path) as lines:
        reader = csv.DictReader(lines, restval="")
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise BadLog(f"{path}, line 1: there is no column '{missing[0]}'; expected {', '.join(required)}")
        for values in reader:
            yield Row(values, f"{path}, line {reader.line_num}")
