"""The settings of `slurm.conf` that are replaced for a controller in simulated time, and why.

What is not listed here is kept as it is: scheduling, priorities, partitions, nodes, quality of service,
limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_GROUPS = {
    "the controller runs here, on loopback": """ControlAddr ControlMachine BackupAddr BackupController
        SlurmctldAddr SlurmctldHost SlurmctldPort SlurmdPort SlurmctldParameters CommunicationParameters
        EnableConfigless SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg FrontendName FederationParameters
        SrunPortRange""",
    "all nodes are one process": """SlurmdParameters SlurmdTimeout SlurmctldTimeout TreeWidth
        MessageTimeout TCPTimeout RoutePlugin BcastExclude BcastParameters ReturnToService InactiveLimit
        HashPlugin KeepAliveTime""",
    "files are in a directory of the run": """StateSaveLocation SlurmdSpoolDir SlurmctldPidFile
        SlurmdPidFile SlurmctldLogFile SlurmdLogFile SlurmSchedLogFile SlurmctldDebug SlurmdDebug
        SlurmSchedLogLevel SlurmctldSyslogDebug SlurmdSyslogDebug LogTimeFormat DebugFlags PluginDir
        PlugStackConfig JobCompType JobCompLoc JobCompHost JobCompPort JobCompUser JobCompPass
        JobCompParams ChosLoc SchedulerRootFilter""",
    "it runs as the calling user, with credentials of its own": """AuthType AuthInfo AuthAltTypes
        AuthAltParameters CredType CryptoType JobCredentialPrivateKey JobCredentialPublicCertificate
        SlurmUser SlurmdUser UsePAM DisableRootJobs GroupUpdateForce GroupUpdateTime PrivateData""",
    "no programs run with jobs": """Prolog Epilog PrologSlurmctld EpilogSlurmctld PrologFlags
        PrologEpilogTimeout SrunProlog SrunEpilog TaskProlog TaskEpilog PrEpPlugins PrEpParameters
        ResvProlog ResvEpilog RebootProgram UnkillableStepProgram UnkillableStepTimeout MailProg MailDomain
        LaunchParameters LaunchType JobContainerType CliFilterPlugins JobSubmitPlugins
        JobSubmitPluginsParameters X11Parameters PropagatePrioProcess PropagateResourceLimits
        PropagateResourceLimitsExcept SiteFactorPlugin SiteFactorParameters PrioritySiteFactorPlugin
        PrioritySiteFactorParameters""",
    "no job has processes": """ProctrackType TaskPlugin TaskPluginParam JobAcctGatherType
        JobAcctGatherFrequency JobAcctGatherParams AcctGatherEnergyType AcctGatherFilesystemType
        AcctGatherInterconnectType AcctGatherInfinibandType AcctGatherProfileType AcctGatherNodeFreq
        ExtSensorsType ExtSensorsFreq CoreSpecPlugin CpuFreqDef CpuFreqGovernors GpuFreqDef MemLimitEnforce
        SbcastParameters""",
    "nodes do not save power": """SuspendProgram ResumeProgram SuspendTime SuspendTimeout ResumeTimeout
        SuspendRate ResumeRate SuspendExcNodes SuspendExcParts SuspendExcStates ResumeFailProgram
        PowerParameters PowerPlugin""",
    "nodes fail and are repaired as the testbed says": """HealthCheckProgram HealthCheckInterval
        HealthCheckNodeState NodeFeaturesPlugins""",
    "jobs do not communicate": "MpiDefault MpiParams SwitchType SwitchParameters",
    "file systems are not modelled": "BurstBufferType BurstBufferParameters",
    "accounting is the run's own": """AccountingStorageType AccountingStorageHost AccountingStorageBackupHost
        AccountingStorageExternalHost AccountingStorageLoc AccountingStoragePass AccountingStoragePort
        AccountingStorageUser AccountingStorageParameters AccountingStoreFlags AccountingStoreJobComment""",
}
REASONS = {name.lower(): why for why, names in _GROUPS.items() for name in names.split()}
"""Why a setting is replaced, by its name in small letters."""

OF_ACCOUNTING = {"accountingstorageenforce", "accountingstoragetres"}
"""Settings that need accounting."""

_ADDRESS = "all nodes share an address"
_POWER = "nodes do not save power"
OF_NODES = {
    **dict.fromkeys(("nodeaddr", "nodehostname", "port", "bcastaddr"), _ADDRESS),
}
"""Why a key of a node is replaced."""
OF_PARTITIONS = {
    "allowgroups": "users of a log have no groups here",
    "allocnodes": "jobs are submitted from anywhere",
    **dict.fromkeys(("suspendtime", "suspendtimeout", "resumetimeout", "powerdownonidle"), _POWER),
}
"""Why a key of a partition is left out."""


class Surroundings(NamedTuple):
    """Where a controller runs."""

    folder: str
    user: str
    controller_port: int | str
    node_port: int | str
    accounting_port: int | None = None
    munge: str | None = None
    """Its socket."""
    log_level: str = "info"


def credential_settings(munge: str | None) -> Iterator[tuple[str, str]]:
    """Of a daemon; with munge's socket, or without it."""
    yield "AuthType", "auth/none" if munge is None else "auth/munge"
    if munge is not None:
        yield "AuthInfo", f"socket={munge}"


def own_settings(here: Surroundings) -> Iterator[tuple[str, str]]:
    """What takes the place of the settings in `REASONS`."""
    yield from (
        ("SlurmctldHost", "localhost(127.0.0.1)"),
        ("SlurmctldPort", str(here.controller_port)),
        ("SlurmdPort", str(here.node_port)),
        ("SlurmUser", here.user),
        ("SlurmdUser", here.user),
        ("StateSaveLocation", f"{here.folder}/state"),
        ("SlurmdSpoolDir", f"{here.folder}/spool"),
        ("SlurmctldPidFile", f"{here.folder}/slurmctld.pid"),
        ("SlurmctldLogFile", f"{here.folder}/slurmctld.log"),
        ("SlurmctldDebug", here.log_level),
        ("JobCompType", "jobcomp/filetxt"),
        ("JobCompLoc", f"{here.folder}/jobcomp.txt"),
        # In real time: a node that does not answer at once has a slow simulator, and is not down.
        ("MessageTimeout", "100"),
        ("TreeWidth", "1"),
        # Nodes are as the configuration says, whatever they register.
        ("SlurmdParameters", "config_overrides"),
        ("SlurmdTimeout", "0"),
        ("InactiveLimit", "0"),
        ("ReturnToService", "1"),
        ("MailProg", "/bin/true"),
        ("ProctrackType", "proctrack/linuxproc"),
        ("TaskPlugin", "task/none"),
        ("JobAcctGatherType", "jobacct_gather/none"),
        ("SwitchType", "switch/none"),
        ("MpiDefault", "none"),
        ("GroupUpdateTime", "0"),
    )
    yield from credential_settings(here.munge)
    yield "CredType", "cred/none" if here.munge is None else "cred/munge"
    if here.accounting_port is None:
        yield "AccountingStorageType", "accounting_storage/none"
    else:
        yield "AccountingStorageType", "accounting_storage/slurmdbd"
        yield "AccountingStorageHost", "127.0.0.1"
        yield "AccountingStoragePort", str(here.accounting_port)
        if here.munge is not None:
            yield "AccountingStoragePass", here.munge
