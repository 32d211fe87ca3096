"""The fields of the records in Slurm's messages, in order, as data. Units are Slurm's: memory and disk space
in MB, time limits in minutes; lists of nodes are in brackets.

A line has a kind of fields (`records.KINDS`, or a record), then fields; `<24.05` are those of versions
before that release's, `>=24.05` those from it on. A field that became another, or moved, is there twice. In
capitals, a kind of numbers has the value that stands for "not given" by default.
"""

RECORDS = """
StepId
    u64 unique>=24.11
    U32 job step component
JobDescription
    StepId id>=26.05
    U32 site_factor
    text batch_features cluster_features clusters
    U16 contiguous
    text container container_id>=24.05 container_type>=26.05
    U16 core_spec
    U32 task_dist
    U16 kill_on_node_fail
    text features
    u64 fed_siblings_active fed_siblings_viable
    job_only id<26.05
    text job_id_str name alloc_node
    U32 alloc_sid
    text array_inx burst_buffer
    U16 pn_min_cpus
    U64 pn_min_memory
    u16 mem_update_delay>=26.05 mem_update_margin>=26.05
    U16 oom_kill_step>=24.11
    U32 pn_min_tmp_disk
    u8 power_flags<24.11
    text prefer
    U32 cpu_freq_min cpu_freq_max cpu_freq_gov
    text partition
    U32 priority
    text dependency account admin_comment comment
    U32 nice
    u32 profile
    text qos mcs_label origin_cluster
    u8 open_mode
    U8 overcommit
    text acctg_freq
    U32 num_tasks
    text req_context req_nodes exc_nodes
    texts environment spank_job_env
    text script
    texts argv
    text std_err std_in std_out submit_line work_dir
    u16 immediate
    U16 reboot requeue shared cpus_per_task ntasks_per_node
    u16 ntasks_per_board
    U16 ntasks_per_socket ntasks_per_core ntasks_per_tres plane_size cpu_bind_type mem_bind_type
    text cpu_bind mem_bind
    U32 time_limit time_min min_cpus max_cpus min_nodes max_nodes
    text job_size>=24.05
    u16 boards_per_node sockets_per_board
    U16 sockets_per_node cores_per_socket threads_per_core
    U32 user_id group_id
    u16 alloc_resp_port
    text alloc_tls_cert>=26.05 resp_host
    u16 other_port
    U16 resv_port_cnt>=24.05
    text network
    time begin_time end_time deadline
    text licenses
    U16 mail_type
    text mail_user reservation
    u16 restart_cnt warn_flags warn_signal warn_time
    text wckey
    U32 req_switch wait4switch
    plugin select_plugin<24.05
    U16 wait_all_nodes
    u64 bitflags
    U32 delay_boot
    text extra
    u16 x11
    text x11_magic_cookie x11_target
    u16 x11_target_port
    text cpus_per_tres mem_per_tres tres_bind tres_freq
    text tres_per_job tres_per_node tres_per_socket tres_per_task
    u8 crontab_entry
    u16 segment_size>=24.05
HeterogeneousJob
    components components
JobGres
    u32 plugin
    u16 cpus_per_gres flags
    u64 per_job per_node per_socket per_task memory_per_gres
    u16 n_tasks_per_gres
    u64 total
    text type
    node_count n_nodes
    counts counts
    devices devices
    shares shares>=24.05
    devices devices_of_steps
    numbers counts_of_steps
    shares shares_of_steps>=24.05
StepGres
    u32 plugin
    u16 cpus_per_gres flags
    u64 per_step per_node per_socket per_task memory_per_gres total
    text type>=24.05
    node_count n_nodes
    bits in_use
    counts counts
    devices devices
    shares shares>=24.05
AllocatedGres
    u32 plugin
    node_count n_nodes
    counts counts
    devices devices
NodeGres
    u64 number
    u32 n_cpus flags plugin
    text cpus links name type unique_id
JobCredential
    StepId id
    u32 user group
    text user_name user_details home shell
    u32s groups
    texts group_names
    gres_of_job gres
    gres_of_step gres_of_step
    u16 specialized_cores
    text account
    addresses addresses>=24.05
    text aliases comment constraints
    time ends>=24.05
    text extra>=24.05
    u16 exclusive>=26.05 shared>=24.05
    text partition qos>=26.05 reservation
    u16 restarts
    time begins>=24.05
    text standard_error standard_input standard_output nodes_of_step
    u16 x11
    time created
    u32 n_cores
    bits cores cores_of_step
    cores_of_nodes cores_of_nodes
    repeated16 cpus_of_nodes
    u32 n_nodes n_tasks
    text nodes licenses>=24.05
    repeated64 memory_of_nodes memory_of_step
    text selinux_context
    octets switch>=24.11 signature
BatchJobLaunch
    u32 number<25.11 het_job user<24.05 group<24.05
    text user_name<24.05
    u32s groups
    text partition
    u32 n_tasks
    u64 least_memory
    u8 open_mode overcommit
    u32 array_job array_task
    text accounting_frequency container
    u16 cpu_binding_type cpus_per_task restarts specialized_cores
    repeated16 cpus_of_nodes
    text aliases<24.11 cpu_binding nodes script directory standard_error standard_input standard_output
    u32 n_arguments
    texts arguments spank_environment
    u32 n_variables
    texts environment
    u64 memory
    versioned_credential credential
    u32 select_plugin<24.05
    text account qos reservation
    u32 profile
    text tres_binding tres_frequency tres_per_task>=25.11
    u32 least_cpu_frequency>=24.11 cpu_frequency>=24.11 cpu_governor>=24.11
    u8 kill_step_without_memory>=24.11
KillJob
    flagged_credential credential>=22.05
    text details>=22.05
    u32 derived_exit_status>=22.05 exit_status>=22.05
    gres_allocation gres
    StepId id
    u32 het_job state user group
    text nodes
    u32 select_plugin<24.05
    texts spank_environment
    time started sent
    text directory>=21.08
SuspendJob
    u8 for_long<24.05
    u16 specialized_cores<24.05
    job id
    u16 operation
SignalTasks
    StepId id
    u16 flags signal
ConfigurationFile
    u8 exists execute>=24.05
    text name content
Configuration
    files files
    text spool
Shutdown
    u16 options
Energy
    u64 base_consumed
    u32 average_watts
    u64 consumed
    u32 current_watts
    u64 previously_consumed
    time read node_started>=24.11
EnergyOfNode
    text node
    energies energy
NodeRegistration
    time sent started
    u32 status
    text extra>=24.05 active_features features host instance>=24.05 instance_type>=24.05 node architecture
    text specialized_cpus
    u64 specialized_memory>=25.05
    text operating_system parameters>=25.11
    one cpus boards sockets cores_per_socket threads_per_core
    u64 memory
    u32 disk up_time_s
    U32 configuration_hash
    u32 load_hundredths
    u64 free_memory
    steps steps
    u16 flags
    gres_of_node gres
    Energy energy
    text version
    u8 dynamic_type
    text dynamic_configuration dynamic_feature
CompleteBatchScript
    flagged_accounting accounting
    job_only id<25.11
    u32 exit_status node_error
    StepId id>=25.11
    u32 user
    text node
EpilogComplete
    job id
    u32 return_code
    text node
ReturnCode
    u32 code
ReturnCodeWithText
    u32 code
    text text
Pinged
    u32 load_hundredths
    u64 free_memory
    text node>=26.05
Submitted
    job id
    u32 step<25.11 error
    text text
Credential
    u32 user group
    text host
Empty
"""
