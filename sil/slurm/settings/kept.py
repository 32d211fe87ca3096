"""The settings of `slurm.conf`: which are passed to a controller in simulated time, and why others are not.

Only what is listed here is passed on, so that no setting that is unknown here, such as one of a later
release, has an effect outside a run.
"""

from __future__ import annotations

from collections.abc import Mapping

from sil.slurm.release import Release

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
"""By kind, and by the release that introduced them ("": all that are supported)."""


def kept(release: Release) -> Mapping[str, Mapping[str, str]]:
    """The keys that pass to a Slurm of a release, by kind and by name in small letters."""
    return {
        kind: {
            key.lower(): key
            for since, keys in of_kind.items()
            if release.is_since(since)
            for key in keys.split()
        }
        for kind, of_kind in _KEPT.items()
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
    return name in _REASONS.get(kind, {}) or any(
        name in keys.lower().split() for keys in _KEPT[kind].values()
    )


def why_left_out(kind: str, name: str, release: Release) -> str:
    """Why a key (in small letters) that is not kept is left out."""
    why = _REASONS.get(kind, {}).get(name)
    since = next((r for r, keys in _KEPT[kind].items() if name in keys.lower().split()), "")
    later = (
        f"Slurm {release.name} does not know it"
        if since
        else "it is not listed as one that is safe to pass on"
    )
    return why or later


NOT_READ = {
    *("acct_gather.conf", "burst_buffer.conf", "certmgr.conf", "cgroup.conf", "cli_filter.lua", "gres.conf"),
    *("helpers.conf", "job_container.conf", "job_submit.lua", "jobcomp.lua", "knl_cray.conf", "mpi.conf"),
    *("knl_generic.conf", "namespace.yaml", "oci.conf", "plugstack.conf", "resources.yaml", "scrun.lua"),
    *("slurmdbd.conf", "topology.yaml"),
}
"""Files that Slurm looks for beside `slurm.conf`. It has resources of nodes in both `gres.conf` and there."""
OF_ACCOUNTING = {"accountingstorageenforce", "accountingstoragetres"}
"""Settings that need accounting."""
