"""The topologies of `topology.yaml`, each with the lines that `topology.conf` has for it.

<https://slurm.schedmd.com/topology.yaml.html>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from site_db.files.access import read_text
from site_db.files.input_errors import InvalidFile
from site_db.slurm.lines import Line, Pair

_LISTS = {"tree": ("switches",), "block": ("block_sizes", "blocks")}
_KINDS = (*_LISTS, "flat", "ring", "torus3d")
_KEYS = {"switch": "SwitchName", "block": "BlockName", "nodes": "Nodes", "children": "Switches"}


class _Texts(yaml.BaseLoader):  # type: ignore[misc]
    """Makes texts, lists, and objects with the numbers of their lines."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        return {"line": node.start_mark.line + 1, **super().construct_mapping(node, deep=True)}


class NamedTopology(NamedTuple):
    """A topology of the plug-in `kind`; lines of tree and block only."""

    name: str
    kind: str
    is_default: bool
    where: str
    lines: tuple[Line, ...] = ()


def topologies(path: Path) -> list[NamedTopology]:
    """All topologies of a file, that of the cluster first. Raises InvalidFile."""
    where, found = str(path), list[NamedTopology]()
    expected = f"expected entries like '- topology: NAME', each with one of {', '.join(_KINDS)}"
    try:
        for each in yaml.load(read_text(path), Loader=_Texts) or [{}]:
            where = f"{path}, line {each['line']}"
            (kind,) = each.keys() - {"line", "topology", "cluster_default"}
            lines = (*_lines(path, each[kind], _LISTS[kind]),) if kind in _LISTS else ()
            is_default = each.get("cluster_default", "").lower() == "true"
            found.append(
                NamedTopology(each["topology"], _KINDS[_KINDS.index(kind)], is_default, where, lines)
            )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidFile(f"{path}, line {mark.line + 1 if mark else 1}: no YAML; {expected}") from None
    except InvalidFile:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise InvalidFile(f"{where}: {expected}, and lists as in Slurm's manual") from None
    return sorted(found, key=lambda topology: not topology.is_default)


def _lines(path: Path, table: Mapping[str, Any], lists: tuple[str, ...]) -> Iterator[Line]:
    if table.keys() - {"line", *lists}:
        raise ValueError(lists)
    for name in filter(table.__contains__, lists):
        entries = table[name]
        if name == "block_sizes":
            entries = [{"line": table["line"], "BlockSizes": ",".join(entries)}]
        for entry in entries:
            where = f"{path}, line {entry['line']}"
            if unknown := entry.keys() - {"line", "BlockSizes", *_KEYS}:
                raise InvalidFile(f"{where}: {min(unknown)} is no key here; expected {', '.join(_KEYS)}")
            pairs = [Pair(_KEYS.get(key, key), str.strip(entry[key])) for key in entry if key != "line"]
            pairs.sort(key=lambda pair: not pair.key.endswith("Name"))  # which is first in topology.conf
            yield Line({pair.name: pair.value for pair in pairs}, where, (*pairs,))
