"""What releases of Slurm refuse or ignore of a `slurm.conf` that earlier ones take, so that all of it is
known before an upgrade: Slurm names one setting at a time.

The keys are those of `src/common/read_config.c` and the plug-ins of each release from 22.05 to 26.05; that
the controllers of 22.05, 24.11 and 26.05 refuse or ignore them was tried one by one. (Plug-ins of the node
daemon are missing there only.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduler.messages import counted
from sil.slurm.release import Release
from site_db.slurm.lines import Pair

LAST = "26.05"
"""Of later releases, nothing is known here."""

_REFUSED = {
    "22.05": """AccountingStorageLoc AccountingStoreJobComment SallocDefaultCommand FastSchedule
        SchedulerParameters=max_job_bf PreemptMode=CHECKPOINT""",
    "23.02": "SlurmctldPlugstack SelectTypeParameters=CR_ALLOCATE_FULL_SOCKET",
    "23.11": """SelectType=select/cons_res SelectTypeParameters=OTHER_CONS_RES
        TopologyPlugin=topology/hypercube""",
    "24.05": """SchedulerAuth SelectType=select/cray_aries SelectTypeParameters=OTHER_CONS_TRES
        SwitchType=switch/cray_aries ProctrackType=proctrack/cray_aries TaskPlugin=task/cray_aries
        JobSubmitPlugins=cray_aries NodeFeaturesPlugins=knl_cray JobContainerType=job_container/cncu
        DebugFlags=ExtSensors DebugFlags=TimeCray""",
    "25.05": """FrontendName TopologyPlugin=topology/3d_torus ReconfigFlags=KeepNodeStateFuture
        DebugFlags=FrontEnd""",
    "25.11": "NodeFeaturesPlugins=knl_generic",
}
_IGNORED = {
    "22.05": "FastSchedule=1 SchedulerAuth DebugFlags=Task",
    "23.11": """ExtSensorsFreq ExtSensorsType JobCredentialPrivateKey JobCredentialPublicCertificate
        RoutePlugin CommunicationParameters=NoAddrCache SlurmctldParameters=cloud_reg_addrs""",
    "24.05": """CoreSpecPlugin PowerParameters PowerPlugin SchedulerParameters=step_retry_count
        SchedulerParameters=step_retry_time CommunicationParameters=CheckGhalQuiesce
        LaunchParameters=cray_net_exclusive LaunchParameters=lustre_no_flush""",
    "25.05": """GetEnvTimeout SchedulerParameters=no_env_cache SchedulerParameters=requeue_setup_env_fail""",
    "25.11": "AccountingStorageUser LaunchParameters=mem_sort",
    "26.05": "SchedulerParameters=enable_job_state_cache",
}
"""Keys, and those of which one value or option is concerned; by the first release that does so."""
_REMARKS = {
    "accountingstorejobcomment": "use AccountingStoreFlags=job_comment",
    "sallocdefaultcommand": "use LaunchParameters=use_interactive_step",
    "fastschedule": "use SlurmdParameters=config_overrides in place of 2",
    "schedulerparameters=max_job_bf": "use bf_max_job_test",
    "selecttype=select/cons_res": "use select/cons_tres",
    "routeplugin": "use TopologyParam=RouteTree in place of route/topology",
    "topologyplugin=topology/3d_torus": "use topology/torus3d of 26.05 with topology.yaml",
    "debugflags=task": "use CPU_Bind",
}


class Gone(NamedTuple):
    """A setting of a line of the operator's file that a release does not take."""

    where: str
    text: str
    is_refused: bool
    """The controller does not start with it; else it is ignored."""
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f" ({self.remark})" if self.remark else "")


def gone(pair: Pair, where: str, release: Release) -> list[Gone]:
    """A setting that is refused or ignored as a whole, or those of its options that are."""
    refused, ignored = _names(_REFUSED, release), _names(_IGNORED, release)
    options = {option.strip().partition("=")[0]: option.strip() for option in pair.value.split(",")}
    names = (
        (f"{pair.name}={value.lower()}", text)
        for option, text in options.items()
        for value in dict.fromkeys((option, option.rpartition("/")[2]))  # as in job_submit/lua
    )
    found = [
        Gone(where, f"{pair.key}={text}", name in refused, _REMARKS.get(name, ""))
        for name, text in names
        if name in refused | ignored
    ]
    if not found and pair.name in refused | ignored:
        text, remark = f"{pair.key}={pair.value}", _REMARKS.get(pair.name, "")
        found.append(Gone(where, text, pair.name in refused, remark))
    return found


def unknown(pair: Pair, where: str, release: Release) -> list[Gone]:
    """A key of none of the releases up to the last one that is known here."""
    return [] if release.series > LAST else [Gone(where, f"{pair.key}={pair.value}", True, "no such key")]


def _names(by_release: Mapping[str, str], release: Release) -> set[str]:
    names = (names for since, names in by_release.items() if release.is_since(since))
    return {name.lower() for each in names for name in each.split()}


def sentences(found: Iterable[Gone], release: Release) -> Iterator[str]:
    """What is refused, and what is ignored."""
    for is_refused, does in ((True, "refuses"), (False, "ignores")):
        listed = [str(each) for each in found if each.is_refused is is_refused]
        if listed:
            yield f"Slurm {release.name} {does} {counted(len(listed), 'setting')}: {'; '.join(listed)}"
