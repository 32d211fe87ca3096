"""The settings of `slurm.conf`: which are passed to a controller in simulated time, and which a release
refuses or ignores, so that all of it is known before an upgrade: Slurm names one setting at a time. They are
listed in `slurm_conf.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.messages import counted
from sil.slurm.protocol.releases import Release
from site_db.slurm.lines import Pair

OF_CLUSTER = ""
"""The kind of settings of the whole cluster; those of nodes and so on have the first key of their lines."""
OF_ACCOUNTING = {"accountingstorageenforce", "accountingstoragetres"}
"""Settings that need accounting."""
LAST = "26.05"
"""The last release that is known here."""


def _by_name(listed: Mapping[str, str]) -> dict[str, str]:
    """The heading under which each name, in small letters, is listed."""
    return {name: heading for heading, names in listed.items() for name in names.lower().split()}


_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("slurm_conf.toml").read_text())
_KEPT, _LEFT_OUT = (
    {kind: _by_name(listed) for kind, listed in _LISTS[what].items()} for what in ("kept", "left_out")
)
"""By kind and name: since when a key is kept, and why another is left out."""
_REFUSED, _IGNORED = _by_name(_LISTS["refused"]), _by_name(_LISTS["ignored"])
"""The first release that refuses or ignores a key, or one value or option of it."""
_REMARKS: Mapping[str, str] = _LISTS["remarks"]
NOT_READ = frozenset(_LISTS["files"]["not_read"].split())
"""Files that Slurm looks for in the folder of `slurm.conf`."""


def kept(release: Release) -> Mapping[str, set[str]]:
    """The keys that pass to a Slurm of a release, by kind, in small letters."""
    return {kind: _names(keys, release) for kind, keys in _KEPT.items()}


def _names(since: Mapping[str, str], release: Release) -> set[str]:
    return {name for name, first in since.items() if release.is_since(first)}


def is_known(kind: str, name: str) -> bool:
    """Whether a release has a key (in small letters) of this kind."""
    return name in _LEFT_OUT.get(kind, {}) or name in _KEPT[kind]


def why_left_out(kind: str, name: str, release: Release) -> str:
    """Why a key (in small letters) that is not kept is left out."""
    if why := _LEFT_OUT.get(kind, {}).get(name):
        return why
    if _KEPT[kind].get(name):
        return f"Slurm {release.name} does not know it"
    return "it is not listed as one that is safe to pass on"


class UnsupportedSetting(NamedTuple):
    """A setting of a line of the operator's file that a release does not take."""

    where: str
    text: str
    is_refused: bool
    """Whether the controller does not start with it; else it is ignored."""
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f" ({self.remark})" if self.remark else "")


def gone(pair: Pair, where: str, release: Release) -> list[UnsupportedSetting]:
    """A setting that is refused or ignored as a whole, or those of its options that are."""
    refused, ignored = _names(_REFUSED, release), _names(_IGNORED, release)
    options = {option.strip().partition("=")[0]: option.strip() for option in pair.value.split(",")}
    names = (
        (f"{pair.name}={value.lower()}", text)
        for option, text in options.items()
        for value in dict.fromkeys((option, option.rpartition("/")[2]))  # as in job_submit/lua
    )
    found = [
        UnsupportedSetting(where, f"{pair.key}={text}", name in refused, _REMARKS.get(name, ""))
        for name, text in names
        if name in refused | ignored
    ]
    if not found and pair.name in refused | ignored:
        text, remark = f"{pair.key}={pair.value}", _REMARKS.get(pair.name, "")
        found.append(UnsupportedSetting(where, text, pair.name in refused, remark))
    return found


def unknown(pair: Pair, where: str, release: Release) -> list[UnsupportedSetting]:
    """A key of none of the releases up to the last one that is known here."""
    return (
        []
        if release.series > LAST
        else [UnsupportedSetting(where, f"{pair.key}={pair.value}", True, "no such key")]
    )


def sentences(found: Iterable[UnsupportedSetting], release: Release) -> Iterator[str]:
    """What is refused, and what is ignored."""
    for is_refused, does in ((True, "refuses"), (False, "ignores")):
        listed = [str(each) for each in found if each.is_refused is is_refused]
        if listed:
            yield f"Slurm {release.name} {does} {counted(len(listed), 'setting')}: {'; '.join(listed)}"
