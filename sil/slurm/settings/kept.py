"""The settings of `slurm.conf`: which are passed to a controller in simulated time, and which a release
refuses or ignores, so that all of it is known before an upgrade: Slurm names one setting at a time.

The keys that a release no longer takes are those of `src/common/read_config.c` and the plug-ins of 22.05
to 26.05; that the controllers of 22.05, 24.11 and 26.05 refuse or ignore them was tried one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduler.messages import counted
from sil.slurm.protocol.releases import Release
from site_db.slurm.lines import Pair

OF_CLUSTER = ""
"""The kind of settings of the whole cluster; those of nodes and so on have the first key of their lines."""
_KEPT = {
    OF_CLUSTER: {
        "": """AccountingStorageEnforce AccountingStorageTRES AllowSpecResourcesUsage BatchStartTimeout
            ClusterName CompleteWait DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
            DependencyParameters EioTimeout EnforcePartLimits EpilogMsgTime FairShareDampeningFactor
            FirstJobId GetEnvTimeout GresTypes JobFileAppend JobRequeue KillOnBadExit KillWait Licenses
            MCSParameters MCSPlugin MaxArraySize MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode
            MaxNodeCount MaxStepCount MaxTasksPerNode MinJobAge OverTimeLimit PreemptExemptTime PreemptMode
            PreemptType PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
            PriorityMaxAge PriorityParameters PriorityType PriorityUsageResetPeriod PriorityWeightAge
            PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
            PriorityWeightQOS PriorityWeightTRES ReconfigFlags RequeueExit RequeueExitHold ResvOverRun
            SchedulerParameters SchedulerTimeSlice SchedulerType SelectType SelectTypeParameters
            TopologyParam TopologyPlugin TrackWCKey VSizeFactor WaitTime""",
        "23.02": "MaxBatchRequeue PreemptParameters",
        "26.05": "LicenseParameters",
    },
    "nodename": {
        "": """NodeName Boards CPUs CPUSpecList CoreSpecCount CoresPerSocket CpuBind Feature Features Gres
            MemSpecLimit Procs RealMemory Reason Sockets SocketsPerBoard State TRESWeights ThreadsPerCore
            TmpDisk Weight""",
        "24.05": "RestrictedCoresPerGPU",
        "25.05": "Topology",
    },
    "partitionname": {
        "": """PartitionName AllowAccounts AllowQos Alternate CpuBind DefCPUPerGPU DefMemPerCPU DefMemPerGPU
            DefMemPerNode Default DefaultTime DenyAccounts DenyQos DisableRootJobs ExclusiveUser GraceTime
            Hidden LLN MaxCPUsPerNode MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes
            OverSubscribe OverTimeLimit PreemptMode Priority PriorityJobFactor PriorityTier QOS ReqResv
            RootOnly SelectTypeParameters Shared State TRESBillingWeights""",
        "23.02": "MaxCPUsPerSocket",
        "24.05": "ExclusiveTopo",
        "25.05": "Topology",
        "26.05": "Exclusive",
    },
    "downnodes": {"": "DownNodes Reason State"},
    "nodeset": {"": "NodeSet Feature Nodes"},
    "frontendname": {"": ""},
    "poweraction": {"26.05": ""},
    # Of topology.conf:
    "switchname": {"": "SwitchName LinkSpeed Nodes Switches"},
    "blockname": {"23.11": "BlockName Nodes"},
    "blocksizes": {"23.11": "BlockSizes"},
}
"""The keys by kind, and by the release that introduced them ("": all that are supported)."""


_SINCE = {
    kind: {name: since for since, keys in of_kind.items() for name in keys.lower().split()}
    for kind, of_kind in _KEPT.items()
}


def kept(release: Release) -> Mapping[str, set[str]]:
    """The keys that pass to a Slurm of a release, by kind, in small letters."""
    return {
        kind: {name for name, since in keys.items() if release.is_since(since)}
        for kind, keys in _SINCE.items()
    }


_GROUPS = {
    "the controller runs here, on loopback": """ControlAddr ControlMachine BackupAddr BackupController
        SlurmctldAddr SlurmctldHost SlurmctldPort SlurmdPort SlurmctldParameters CommunicationParameters
        SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg SlurmctldPlugstack FrontendName
        FederationParameters SrunPortRange TLSType TLSParameters CertmgrType CertmgrParameters CertgenType
        CertgenParameters HttpParserType UrlParserType DataParserParameters MetricsType MetricsParameters
        MetricsAuthUsers SlurmctldHttpAuthParameters SlurmdHttpAuthParameters""",
    "all nodes are one process": """SlurmdParameters SlurmdTimeout SlurmctldTimeout TreeWidth MessageTimeout
        TCPTimeout RoutePlugin BcastExclude BcastParameters ReturnToService InactiveLimit HashPlugin
        KeepAliveTime TmpFS""",
    "files are in a directory of the run": """StateSaveLocation SlurmdSpoolDir SlurmctldPidFile
        SlurmdPidFile SlurmctldLogFile SlurmdLogFile SlurmSchedLogFile SlurmctldDebug SlurmdDebug
        SlurmSchedLogLevel SlurmctldSyslogDebug SlurmdSyslogDebug LogTimeFormat DebugFlags PluginDir
        PlugStackConfig JobCompType JobCompLoc JobCompHost JobCompPort JobCompUser JobCompPass
        JobCompPassScript JobCompParams""",
    "it runs as the calling user, with credentials of its own": """AuthType AuthInfo AuthAltTypes
        AuthAltParameters CredType CryptoType JobCredentialPrivateKey JobCredentialPublicCertificate
        SlurmUser SlurmdUser UsePAM DisableRootJobs GroupUpdateForce GroupUpdateTime PrivateData
        SchedulerAuth""",
    "no programs run with jobs": """Prolog Epilog PrologSlurmctld EpilogSlurmctld PrologFlags
        PrologEpilogTimeout PrologTimeout EpilogTimeout SrunProlog SrunEpilog TaskProlog TaskEpilog
        PrEpPlugins PrEpParameters ResvProlog ResvEpilog RebootProgram UnkillableStepProgram
        UnkillableStepTimeout MailProg MailDomain LaunchParameters LaunchType JobContainerType NamespaceType
        CliFilterPlugins CliFilterParameters JobSubmitPlugins X11Parameters
        PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept
        PrioritySiteFactorPlugin PrioritySiteFactorParameters InteractiveStepOptions
        SallocDefaultCommand ScronParameters""",
    "no job has processes": """ProctrackType TaskPlugin TaskPluginParam JobAcctGatherType
        JobAcctGatherFrequency JobAcctGatherParams AcctGatherEnergyType AcctGatherFilesystemType
        AcctGatherInterconnectType AcctGatherInfinibandType AcctGatherProfileType AcctGatherNodeFreq
        ExtSensorsType ExtSensorsFreq CoreSpecPlugin CpuFreqDef CpuFreqGovernors GpuFreqDef
        SbcastParameters""",
    "nodes do not save power": """SuspendProgram ResumeProgram SuspendTime SuspendTimeout ResumeTimeout
        SuspendRate ResumeRate SuspendExcNodes SuspendExcParts SuspendExcStates ResumeFailProgram
        PowerParameters PowerPlugin""",
    "nodes fail and are repaired as the testbed says": """HealthCheckProgram HealthCheckInterval
        HealthCheckNodeState HealthCheckTimeout NodeFeaturesPlugins""",
    "jobs do not communicate": "MpiDefault MpiParams SwitchType SwitchParameters",
    "file systems are not modelled": "BurstBufferType BurstBufferParameters",
    "accounting is the run's own": """AccountingStorageType AccountingStorageHost
        AccountingStorageBackupHost AccountingStorageExternalHost AccountingStorageLoc AccountingStoragePass
        AccountingStoragePort AccountingStorageUser AccountingStorageParameters AccountingStoreFlags
        AccountingStoreJobComment""",
}
_ADDRESS = "all nodes share an address"
_POWER = "nodes do not save power"
_REASONS = {
    OF_CLUSTER: {name.lower(): why for why, names in _GROUPS.items() for name in names.split()},
    "nodename": {
        **dict.fromkeys(("nodeaddr", "nodehostname", "port", "bcastaddr"), _ADDRESS),
        "gresconf": "devices are counted, and have no files",
        "parameters": "all nodes are one process",
        "suspendtime": _POWER,
    },
    "partitionname": {
        "allowgroups": "users of a log have no groups here",
        "allocnodes": "jobs are submitted from anywhere",
        **dict.fromkeys(("suspendtime", "suspendtimeout", "resumetimeout", "powerdownonidle"), _POWER),
    },
    "frontendname": {"frontendname": _ADDRESS},
    "poweraction": dict.fromkeys(("poweraction", "program", "location"), _POWER),
}


def is_known(kind: str, name: str) -> bool:
    """Whether a release has a key (in small letters) of this kind."""
    return name in _REASONS.get(kind, {}) or name in _SINCE[kind]


def why_left_out(kind: str, name: str, release: Release) -> str:
    """Why a key (in small letters) that is not kept is left out."""
    if why := _REASONS.get(kind, {}).get(name):
        return why
    if _SINCE[kind].get(name):
        return f"Slurm {release.name} does not know it"
    return "it is not listed as one that is safe to pass on"


NOT_READ = {
    *("acct_gather.conf", "burst_buffer.conf", "certmgr.conf", "cgroup.conf", "cli_filter.lua", "gres.conf"),
    *("helpers.conf", "job_container.conf", "job_submit.lua", "jobcomp.lua", "knl_cray.conf", "mpi.conf"),
    *("knl_generic.conf", "namespace.yaml", "oci.conf", "plugstack.conf", "resources.yaml", "scrun.lua"),
    *("slurmdbd.conf", "topology.yaml"),
}
"""Files that Slurm looks for in the folder of `slurm.conf`. Resources of nodes are in `gres.conf`, too."""
OF_ACCOUNTING = {"accountingstorageenforce", "accountingstoragetres"}
"""Settings that need accounting."""


LAST = "26.05"
"""The last release that is known here."""

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
"""Keys, and those of which one value or option is concerned, by the first release that ignores them."""
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


def _names(by_release: Mapping[str, str], release: Release) -> set[str]:
    names = (names for since, names in by_release.items() if release.is_since(since))
    return {name.lower() for each in names for name in each.split()}


def sentences(found: Iterable[UnsupportedSetting], release: Release) -> Iterator[str]:
    """What is refused, and what is ignored."""
    for is_refused, does in ((True, "refuses"), (False, "ignores")):
        listed = [str(each) for each in found if each.is_refused is is_refused]
        if listed:
            yield f"Slurm {release.name} {does} {counted(len(listed), 'setting')}: {'; '.join(listed)}"
