"""The description of a job as it is packed, with the names of Slurm's programming interface; see
`submission` for units."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from sil.slurm.protocol.fields import (
    NO_VALUE_8,
    NO_VALUE_16,
    NO_VALUE_32,
    NO_VALUE_64,
    U8,
    U16,
    U32,
    U64,
    Listed,
    Text,
    Texts,
    Time,
)
from sil.slurm.protocol.job_credential import JOB_ONLY, STEP, StepId, of_job
from sil.slurm.protocol.layouts import Became, Before, Moved, Nested, Since
from sil.slurm.protocol.releases import V24_05, V24_11, V26_05

LINEAR, CONS_TRES = 102, 109
"""Plug-ins that select nodes. None of those has further data in messages, so that any controller takes the
number of any."""


class JobDescription(NamedTuple):
    """All that can be requested for a job. By default, nothing is."""

    site_factor: U32 = NO_VALUE_32
    batch_features: Text = None
    cluster_features: Text = None
    clusters: Text = None
    contiguous: U16 = NO_VALUE_16
    container: Text = None
    container_id: Annotated[Text, Since(V24_05)] = None
    container_type: Annotated[Text, Since(V26_05)] = None
    core_spec: U16 = NO_VALUE_16
    task_dist: U32 = NO_VALUE_32
    kill_on_node_fail: U16 = NO_VALUE_16
    features: Text = None
    fed_siblings_active: U64 = 0
    fed_siblings_viable: U64 = 0
    id: Annotated[StepId, Became(V26_05, JOB_ONLY, STEP), Moved(V26_05, "site_factor")] = of_job(NO_VALUE_32)
    job_id_str: Text = None
    name: Text = None
    alloc_node: Text = None
    alloc_sid: U32 = NO_VALUE_32
    array_inx: Text = None
    burst_buffer: Text = None
    pn_min_cpus: U16 = NO_VALUE_16
    pn_min_memory: U64 = NO_VALUE_64
    mem_update_delay: Annotated[U16, Since(V26_05, 0)] = 0
    mem_update_margin: Annotated[U16, Since(V26_05, 0)] = 0
    oom_kill_step: Annotated[U16, Since(V24_11, NO_VALUE_16)] = NO_VALUE_16
    pn_min_tmp_disk: U32 = NO_VALUE_32
    power_flags: Annotated[U8, Before(V24_11, 0)] = 0
    prefer: Text = None
    cpu_freq_min: U32 = NO_VALUE_32
    cpu_freq_max: U32 = NO_VALUE_32
    cpu_freq_gov: U32 = NO_VALUE_32
    partition: Text = None
    priority: U32 = NO_VALUE_32
    dependency: Text = None
    account: Text = None
    admin_comment: Text = None
    comment: Text = None
    nice: U32 = NO_VALUE_32
    profile: U32 = 0
    qos: Text = None
    mcs_label: Text = None
    origin_cluster: Text = None
    open_mode: U8 = 0
    overcommit: U8 = NO_VALUE_8
    acctg_freq: Text = None
    num_tasks: U32 = NO_VALUE_32
    req_context: Text = None
    req_nodes: Text = None
    exc_nodes: Text = None
    environment: Texts = ()
    spank_job_env: Texts = ()
    script: Text = None
    argv: Texts = ()
    std_err: Text = None
    std_in: Text = None
    std_out: Text = None
    submit_line: Text = None
    work_dir: Text = None
    immediate: U16 = 0
    reboot: U16 = NO_VALUE_16
    requeue: U16 = NO_VALUE_16
    shared: U16 = NO_VALUE_16
    cpus_per_task: U16 = NO_VALUE_16
    ntasks_per_node: U16 = NO_VALUE_16
    ntasks_per_board: U16 = 0
    ntasks_per_socket: U16 = NO_VALUE_16
    ntasks_per_core: U16 = NO_VALUE_16
    ntasks_per_tres: U16 = NO_VALUE_16
    plane_size: U16 = NO_VALUE_16
    cpu_bind_type: U16 = NO_VALUE_16
    mem_bind_type: U16 = NO_VALUE_16
    cpu_bind: Text = None
    mem_bind: Text = None
    time_limit: U32 = NO_VALUE_32
    time_min: U32 = NO_VALUE_32
    min_cpus: U32 = NO_VALUE_32
    max_cpus: U32 = NO_VALUE_32
    min_nodes: U32 = NO_VALUE_32
    max_nodes: U32 = NO_VALUE_32
    job_size: Annotated[Text, Since(V24_05)] = None
    boards_per_node: U16 = 0
    sockets_per_board: U16 = 0
    sockets_per_node: U16 = NO_VALUE_16
    cores_per_socket: U16 = NO_VALUE_16
    threads_per_core: U16 = NO_VALUE_16
    user_id: U32 = NO_VALUE_32
    group_id: U32 = NO_VALUE_32
    alloc_resp_port: U16 = 0
    alloc_tls_cert: Annotated[Text, Since(V26_05)] = None
    resp_host: Text = None
    other_port: U16 = 0
    resv_port_cnt: Annotated[U16, Since(V24_05, NO_VALUE_16)] = NO_VALUE_16
    network: Text = None
    begin_time: Time = 0
    end_time: Time = 0
    deadline: Time = 0
    licenses: Text = None
    mail_type: U16 = NO_VALUE_16
    mail_user: Text = None
    reservation: Text = None
    restart_cnt: U16 = 0
    warn_flags: U16 = 0
    warn_signal: U16 = 0
    warn_time: U16 = 0
    wckey: Text = None
    req_switch: U32 = NO_VALUE_32
    wait4switch: U32 = NO_VALUE_32
    select_plugin: Annotated[U32, Before(V24_05, CONS_TRES)] = CONS_TRES
    wait_all_nodes: U16 = NO_VALUE_16
    bitflags: U64 = 0
    delay_boot: U32 = NO_VALUE_32
    extra: Text = None
    x11: U16 = 0
    x11_magic_cookie: Text = None
    x11_target: Text = None
    x11_target_port: U16 = 0
    cpus_per_tres: Text = None
    mem_per_tres: Text = None
    tres_bind: Text = None
    tres_freq: Text = None
    tres_per_job: Text = None
    tres_per_node: Text = None
    tres_per_socket: Text = None
    tres_per_task: Text = None
    crontab_entry: U8 = 0
    segment_size: Annotated[U16, Since(V24_05, 0)] = 0


class HeterogeneousJob(NamedTuple):
    """Jobs that start and end together."""

    components: Annotated[tuple[JobDescription, ...], Listed(Nested(JobDescription), "H")]
