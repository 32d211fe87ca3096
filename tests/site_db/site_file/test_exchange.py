from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from site_db import store
from site_db.files.input_errors import InvalidFile
from site_db.site_file import importing
from site_db.site_file.importing import SiteConflict, put_site
from site_db.site_file.relations import in_site_order
from site_db.site_file.validation import errors
from site_db.sites import SiteReader
from site_db.store import parse_address
from tests.examples import up_to
from tests.fuzzing.mutations import mutated
from tests.site_db.site_texts import (
    FULL,
    HCS_2001,
    NODES,
    SMALL,
    assert_has_a_plain_sentence_for_each_mistake,
    blamed_line,
    changed,
    of_lines,
    read,
    refusal,
    site_of,
)


def machine_names(file: importing.SiteFile) -> list[str]:
    return [name for group in file.machines for name in group.names]


def assert_is_refused(text: str, sentence: str, folder: Path) -> None:
    assert f"line {blamed_line(text)}: {sentence}" in refusal(text, folder).split("\n")


def of_keys(cases: str) -> dict[str, tuple[str, str, str]]:
    """Mistakes in single values, one a line: its name, the key, its value, a wrong one, what is expected."""
    found = {}
    for name, key, value, wrong, expected in re.findall(r"(.+?): (\S+) = (.+?) \| (.+?) \| (.+)", cases):
        last = key.rpartition(".")[2]
        sentence = f"{key} = {wrong}: expected {expected}"
        found[name] = (f"{last} = {value}", f"{last} = {wrong} # HERE", sentence)
    return found


def test_the_small_site_is_read_with_expanded_ranges(tmp_path: Path) -> None:
    file = read(SMALL, tmp_path)
    assert machine_names(file) == ["f1", "f2", "s1", "s2", "odd"]
    assert [cluster.members for cluster in file.clusters] == [("f1", "f2"), ("f2", "s1", "s2")]
    assert [cluster.least_share for cluster in file.clusters] == [1.0, 0.5]
    assert [x.latency_us for x in file.interconnects] == [0.0, 10.0]
    assert [queue.users for queue in file.queues] == [("ann", "bob"), None, ()]
    assert list(errors(file)) == []


def test_the_requests_at_a_site_of_nodes_are_read_completely(tmp_path: Path) -> None:
    file = read(NODES, tmp_path)
    assert list(errors(file)) == []
    wide, tasks, train, infer, plain = (table.request for table in file.job_classes)
    assert wide is not None
    assert tasks is not None
    assert train is not None
    assert infer is not None
    assert (wide.nodes, wide.tasks, wide.cores, wide.exclusive) == (2, None, 8.0, True)
    assert wide.memory_mb == 32_004  # of each node: 8 cores with 4,000.5 MB
    assert (wide.features, wide.partitions, wide.time_limit_s) == (("ib",), ("batch", "whole"), 7200.0)
    assert (tasks.nodes, tasks.tasks, tasks.cores, tasks.site_resources) == (1, 128, 0.5, {"matlab": 2})
    assert (train.gpus, train.gpu_types) == (4, ("a100", "h100"))
    assert train.resources == {"scratch": 400_000_000_000}
    assert (infer.gpus, infer.gpu_share, infer.cores, infer.memory_mb) == (1, 0.25, 1.0, 0)
    assert plain is None


@pytest.mark.parametrize(
    ("given", "gpus"),
    [("nodes = 2\ntotal_gpus = 8", 4), ("tasks = 4\ntotal_gpus = 8", 2), ("total_gpus = 3", 3)],
    ids=["nodes", "tasks", "one node"],
)
def test_gpus_in_total_are_those_of_each_node_or_task(given: str, gpus: int, tmp_path: Path) -> None:
    text = changed("nodes = 1\ntotal_gpus = 4", given, NODES)
    text = changed("a100 = 4", "a100 = 16", text).replace('names = ["g1"]', 'names = ["g[1-2]"]')
    request = read(text, tmp_path).job_classes[2].request
    assert request is not None
    assert request.gpus == gpus


def test_site_order_is_idempotent(tmp_path: Path) -> None:
    for text in (FULL, NODES):
        file = read(text, tmp_path)
        assert in_site_order(file) == file


UNRESOLVED_NAMES = of_lines(r"""
a member in an array of several lines: ["f2", "s[1-2]"] -> [\n  "f2",\n  # s\n  "Z", # HERE\n]
  cluster 'mixed' names the machine 'Z', which does not exist; the site has f1, f2, s1, s2, odd
a member of a range: ["f2", "s[1-2]"] -> ["f2", "s[1-3]"] # HERE
  cluster 'mixed' names the machine 's3', which does not exist; the site has f1, f2, s1, s2, odd
an interconnect of a cluster: ["lan", "sci"] -> ["lan", "scii"] # HERE
  cluster 'pair' names the interconnect 'scii', which does not exist; did you mean 'sci'?
the class of machines: odd"]\nmachine_class = "slow" -> odd"]\nmachine_class = "slwo" # HERE
  the group of machines 2 names the machine class 'slwo', which does not exist; did you mean 'slow'?
a class of machines that runs a job class: slow = 30.5 -> # slow\nslwo = 30.5 # HERE
  job class 'short' names the machine class 'slwo', which does not exist; did you mean 'slow'?
a cluster that runs a job class: mixed = 77 -> # HER\n'mixt' = 77 # HERE
  job class 'wide' names the cluster 'mixt', which does not exist; did you mean 'mixed'?
a preferred class of machines: ["slow", "fast"] -> ["slow", "vector"] # HERE
  job class 'short' names the machine class 'vector', which does not exist; the site has fast, slow
a queue to displace: ["night"] -> ["nihgt"] # HERE
  queue 'day' names the queue 'nihgt', which does not exist; did you mean 'night'?
""")


UNRESOLVED_NAMES_IN_THE_FULL_SITE = of_lines(r"""
an interconnect of a group of machines: ["sci", "lan"] -> ["sci", "wan"] # HERE
  the group of machines 1 names the interconnect 'wan', which does not exist; did you mean 'lan'?
the class of machines of a command: slow = "flow --small" -> slwo = "flow" # HERE
  job class 'flow' names the machine class 'slwo', which does not exist; did you mean 'slow'?
the cluster of a command: quad = "mpirun flow" -> octo = "mpirun flow" # HERE
  job class 'flow' names the cluster 'octo', which does not exist; the site has quad
a cluster as the place of a sequential command: slow = "flow --small" -> quad = "flow" # HERE
  job class 'flow' names the machine class 'quad', which does not exist; the site has fast, slow
a queue of a user: ["night", "day"] -> [\n"night",\n"dya", # HERE\n]
  user 'ann' names the queue 'dya', which does not exist; did you mean 'day'?
a user to submit as: user = "bob" -> user = "bop" # HERE
  user 'ann' names the user 'bop', which does not exist; did you mean 'bob'?
themselves to submit as: user = "bob" -> user = "ann" # HERE
  user 'ann' can always submit under their own name; remove this entry
a queue to submit to as another: user = "cy"\nqueues = ["night"] -> user = "cy"\nqueues = ["noon"] # HERE
  user 'ann' names the queue 'noon', which does not exist; the site has day, night
""")


def test_the_hint_says_if_there_is_nothing_to_refer_to(tmp_path: Path) -> None:
    text = SMALL[: SMALL.index("[[interconnects]]")] + SMALL[SMALL.index("[[clusters]]") :]
    text = changed('interconnects = ["lan", "sci"]', 'interconnects = ["lan"] # HERE', text)
    sentence = "cluster 'pair' names the interconnect 'lan', which does not exist; the site has none"
    assert_is_refused(text, sentence, tmp_path)


def test_the_hint_shows_at_most_five_names(tmp_path: Path) -> None:
    text = changed('"odd"]', '"odd", "extra"]').replace('["f2", "s[1-2]"]', '["UNKNOWN"]')
    assert refusal(text, tmp_path).endswith("the site has f1, f2, s1, s2, odd, ...")


UNRESOLVED_NAMES_AT_A_SITE_OF_NODES = of_lines(r"""
a node of a partition: nodes = ["g1", "n[03-04]"] -> nodes = [\n"n[03-04]",\n"n05", # HERE\n]
  partition 'whole' names the machine 'n05', which does not exist; did you mean 'n04'?
a partition of a request: partitions = ["whole", "batch"] -> partitions = ["whole", "bacth"] # HERE
  job class 'wide' names the partition 'bacth', which does not exist; did you mean 'batch'?
""")


NAMED_TWICE = of_lines(r"""
a machine class: name = "slow" -> # once\nname = "fast" # HERE
  machine class 'fast' is named twice
an interconnect: name = "sci" -> name = "lan" # HERE
  interconnect 'lan' is named twice
a cluster: name = "mixed" -> name = "pair" # HERE
  cluster 'pair' is named twice
a job class: name = "wide" -> name = "short" # HERE
  job class 'short' is named twice
a queue: name = "closed" -> name = "day" # HERE
  queue 'day' is named twice
a machine of two groups: "odd"] -> "f2"] # HERE
  machine 'f2' is named twice
a machine of two ranges: "odd"] -> "s[2-3]"] # HERE
  machine 's2' is named twice
a machine of the last of many groups: [[interconnects]]\nname = "lan"
  -> [[machines]]\nnames = ["x[1-9]"]\nmachine_class = "slow"\n[[machines]]\nnames = [\n  "y",\n
      "x9", # HERE\n]\nmachine_class = "slow"\n[[interconnects]]\nname = "lan"
  machine 'x9' is named twice
a member: ["f1", "f2"] -> ["f1", "f2", "f[1-2]"] # HERE
  cluster 'pair': machine 'f1' is named twice
an interconnect of a cluster: ["lan", "sci"] -> ["lan", "sci", "lan"] # HERE
  cluster 'pair': interconnect 'lan' is named twice
a preferred machine class: ["slow", "fast"] -> ["slow", "slow"] # HERE
  job class 'short': machine class 'slow' is named twice
a user: ["ann", "bob"] -> ["ann", "bob", "ann"] # HERE
  queue 'day': user 'ann' is named twice
a displaced queue: ["night"] -> [\n"night",\n"closed",\n"night", # HERE\n]
  queue 'day': queue 'night' is named twice
""")


NAMED_TWICE_IN_THE_FULL_SITE = of_lines(r"""
a user: [[users]]\nname = "cy" -> [[users]]\nname = "bob" # HERE\n\n[[users]]\nname = "cy"
  user 'bob' is named twice
an interconnect of a group of machines: ["sci", "lan"] -> ["sci", "lan", "sci"] # HERE
  the group of machines 1: interconnect 'sci' is named twice
a queue of a user: ["night", "day"] -> ["night", "day", "night"] # HERE
  user 'ann': queue 'night' is named twice
a queue to submit to as another: user = "cy"\nqueues = ["night"]
  -> user = "cy"\nqueues = ["night", "night"] # HERE
  user 'ann': queue 'night' is named twice
""")


NAMED_TWICE_AT_A_SITE_OF_NODES = of_lines(r"""
a partition: name = "whole" -> name = "batch" # HERE
  partition 'batch' is named twice
a node of a partition: ["g1", "n[03-04]"] -> ["g1", "n[03-04]", "n04"] # HERE
  partition 'whole': machine 'n04' is named twice
a site resource: name = "matlab"\namount = 5
  -> name = "matlab"\namount = 5\n\n[[site_resources]]\nname = "matlab" # HERE\namount = 5
  site resource 'matlab' is named twice
""")


INCONSISTENCIES = of_lines(r"""
a cluster named like a machine: name = "mixed" -> name = "odd" # HERE
  'odd' is the name of a machine and of a cluster
a cluster without members: members = ["f1", "f2"] -> members = [] # HERE
  cluster 'pair' has no members
a queue that displaces one of higher priority: priority = 2\nusers = ["ann", "bob"]\ndisplaces = ["night"]
  -> priority = -1\nusers = ["ann", "bob"]\ndisplaces = ["night"] # HERE
  queue 'day' displaces 'night', which is served before it; give it a higher priority
a queue that displaces itself: ["night"] -> ["night", "day"] # HERE
  queue 'day' cannot displace itself
a job class without a time: name = "wide"\n\n[job_classes.parallel_s]\nmixed = 77
  -> name = "wide"\n\n[job_classes.sequential_s] # HERE
  job class 'wide' has no machine that can run it; give it a time in sequential_s for a class that has
  machines (fast, slow), or in parallel_s for a cluster, or in_isolation for shared nodes
a job class for machines that the site has not got: name = "slow"\n\n[[machines]]
  -> name = "slow"\n\n[[machine_classes]]\nname = "cray"\n\n[[job_classes]]\nname = "vector"\n
    sequential_s.cray = 3 # HERE\n\n[[machines]]
  job class 'vector' has no machine that can run it; give it a time in sequential_s for a class that has
  machines (fast, slow), or in parallel_s for a cluster, or in_isolation for shared nodes
a social contract over machines whose memory is not known: members = ["f1", "f2"]
  -> social_contract.share = 0.5\nmembers = ["f1", "f2"] # HERE
  cluster 'pair' has a social contract, which shares out memory; give its member 'f1' a memory_mb
a job class that was measured twice: preferred = ["slow", "fast"]
  -> preferred = ["slow", "fast"]\nin_isolation = [\n{tasks = 2, exe_s = 9, cpu = 1, memory_mb = 1},\n
    {tasks = 2, exe_s = 9, cpu = 1, memory_mb = 1}, # HERE\n]
  job class 'short' was measured in isolation twice with 2 tasks; keep one of them
""")


INCONSISTENCIES_AT_A_SITE_OF_NODES = of_lines(r"""
a default time above the largest: default_time_s = 3600 -> default_time_s = 100000 # HERE
  partition 'batch' has a default_time_s of 100,000; expected max_time_s, 86,400, or less
a machine on a switch that the site has not got: switch = "leaf2" -> switch = "leaf3" # HERE
  switch 'leaf3' is no leaf of the topology; it has leaf1, leaf2
a switch above more leaves than there are: above = [[1, [0, 1]]] -> above = [[1, [0, 2]]] # HERE
  the leaves below a switch are [0, 2]; expected places in leaves, from 0 to 1
both nodes and tasks: [job_classes.request]\nnodes = 2 -> [job_classes.request] # HERE\nnodes = 2\ntasks = 4
  job_classes[0].request: a request has either nodes or tasks, and this one has both
memory in two ways: [job_classes.request]\nnodes = 2
  -> [job_classes.request] # HERE\nnodes = 2\nmemory_mb = 1000
  job_classes[0].request: a request has either memory_mb or memory_mb_per_core, and this one has both
memory per core of no cores: [job_classes.request]\nnodes = 2\ncores = 8
  -> [job_classes.request] # HERE\nnodes = 2\ncores = 0
  job_classes[0].request: memory_mb_per_core is of cores, and there are none; give memory_mb instead
memory per core of infinity: [job_classes.request]\nnodes = 2\ncores = 8\nmemory_mb_per_core = 4000.5
  -> [job_classes.request] # HERE\nnodes = 2\ncores = 8\nmemory_mb_per_core = inf
  job_classes[0].request: memory_mb_per_core is inf; expected a number of MB, more than 0
memory per core in quotes: [job_classes.request]\nnodes = 2\ncores = 8\nmemory_mb_per_core = 4000.5
  -> [job_classes.request] # HERE\nnodes = 2\ncores = 8\nmemory_mb_per_core = "4G"
  job_classes[0].request: memory_mb_per_core is '4G'; expected a number of MB, more than 0
GPUs in two ways: [job_classes.request]\nnodes = 1\ntotal_gpus = 4
  -> [job_classes.request] # HERE\nnodes = 1\ngpus = 4\ntotal_gpus = 4
  job_classes[2].request: a request has either gpus or total_gpus, and this one has both
GPUs that nodes cannot share equally: [job_classes.request]\nnodes = 1\ntotal_gpus = 4
  -> [job_classes.request] # HERE\nnodes = 3\ntotal_gpus = 4
  job_classes[2].request: total_gpus is 4, which 3 nodes or tasks cannot share equally
half a GPU in total: [job_classes.request]\nnodes = 1\ntotal_gpus = 4
  -> [job_classes.request] # HERE\nnodes = 1\ntotal_gpus = 0.5
  job_classes[2].request: total_gpus is 0.5; expected a whole number, 1 or more
a share of two GPUs: [job_classes.request]\ngpus = 1 -> [job_classes.request] # HERE\ngpus = 2
  job_classes[3].request: gpu_share is of one GPU, and gpus is 2; expected 1
a type of no GPUs: [job_classes.request]\nnodes = 1\ntotal_gpus = 4 -> [job_classes.request] # HERE\nnodes = 1
  job_classes[2].request: gpu_types is given without gpus; expected the number of GPUs, 1 or more
less than a thousandth of a core: [job_classes.request]\ntasks = 128\ncores = 0.5
  -> [job_classes.request] # HERE\ntasks = 128\ncores = 0.0004
  job_classes[1].request: cores is 0.0004; expected 0, or 0.001 or more
less than a thousandth of a GPU: gpu_share = 0.25 -> gpu_share = 0.0004 # HERE
  job_classes[3].request.gpu_share = 0.0004: expected a number greater than or equal to 0.001
nothing: [job_classes.request]\ntasks = 128\ncores = 0.5
  -> [job_classes.request] # HERE\ntasks = 128\ncores = 0
  job_classes[1].request: a request has cores, memory_mb, gpus or resources; this one has none
a misspelled key of a request: tasks = 128 -> taks = 128 # HERE
  unknown key 'taks'; did you mean 'tasks'?
GPUs of a machine without types: [machines.gpus]\nh100 = 2\na100 = 4\n -> gpus = 4 # HERE\n
  machines[1].gpus = 4: expected a table
no GPUs of a type: h100 = 2 -> h100 = 0 # HERE
  machines[1].gpus.h100 = 0: expected a number greater than or equal to 1
""")


def test_a_duplicate_user_to_submit_as_is_rejected(tmp_path: Path) -> None:
    text = changed('user = "bob"', 'user = "cy"', FULL)
    assert refusal(text, tmp_path).endswith("user 'ann': user 'cy' is named twice")


def test_a_number_of_cores_that_is_wrong_is_the_one_error_of_a_request(tmp_path: Path) -> None:
    text = changed("nodes = 2\ncores = 8", "nodes = 2\ncores = inf # HERE", NODES)
    sentence = "job_classes[0].request.cores = inf: expected a finite number"
    assert refusal(text, tmp_path) == f"line {blamed_line(text)}: {sentence}"


@pytest.mark.parametrize(
    "table",
    ["commands.fast", "commands.slow", "parallel_commands.quad", "sequential_s.fast", "parallel_s.quad"],
)
def test_one_time_or_command_for_existing_machines_makes_a_job_class_runnable(
    table: str, tmp_path: Path
) -> None:
    value = "1" if table.split(".")[0].endswith("_s") else '"x"'
    start, end = FULL.index("[[job_classes]]"), FULL.index("[[queues]]")
    text = f'{FULL[:start]}[[job_classes]]\nname = "one"\n{table} = {value}\n{FULL[end:]}'
    assert [k.name for k in read(text, tmp_path).job_classes] == ["one"]


def test_a_command_for_missing_machines_does_not_make_a_job_class_runnable(tmp_path: Path) -> None:
    text = changed(
        'name = "slow"\n\n[[machines]]',
        'name = "slow"\n\n[[machine_classes]]\nname = "cray"\n\n[[job_classes]]\nname = "vector"\n'
        'commands.cray = "vector"\n\n[[machines]]',
        FULL,
    )
    assert "job class 'vector' has no machine that can run it" in refusal(text, tmp_path)


def test_a_site_without_machines_is_rejected(tmp_path: Path) -> None:
    text = 'name = "s"\nmachine_classes = [{name = "k"}]\njob_classes = []\nmachines = [] # HERE\n'
    assert_is_refused(text, "the site has no machines", tmp_path)


def test_a_machine_group_without_names_cannot_run_jobs(tmp_path: Path) -> None:
    text = changed('names = ["f[1-2]"]', "names = []").replace('["f1", "f2"]', '["s1"]')
    text = text.replace('["f2", "s[1-2]"]', '["s1"]')
    assert "job class 'long' has no machine that can run it" in refusal(text, tmp_path)


WRONG_VALUES = of_keys("""
true for a bandwidth: interconnects[1].bandwidth_mbit_per_s = 1280.5 | true | a number
a bandwidth in quotes: interconnects[1].bandwidth_mbit_per_s = 1280.5 | "1280" | a number
a negative latency: interconnects[1].latency_us = 10 | -10 | a number greater than or equal to 0
true for a latency: interconnects[1].latency_us = 10 | true | a number
a share of none: clusters[1].least_share = 0.5 | 0 | a number greater than 0
a share of more than all: clusters[1].least_share = 0.5 | 50 | a number less than or equal to 1
a negative time: job_classes[0].sequential_s.slow = 30.5 | -30.5 | a number greater than 0
a time of nan on a cluster: job_classes[2].parallel_s.mixed = 77 | nan | a finite number
a time with its unit: job_classes[0].sequential_s.slow = 30.5 | "30.5 s" | a number
a mapping that does not exist: queues[1].mapping = "remap" | "Remap" | 'commit' or 'remap'
a priority beyond databases: queues[0].priority = 2 | 99999999999999999999 | a number less than 2147483648
a priority that is no whole number: queues[0].priority = 2 | 2.5 | a whole number
""") | of_lines(r"""
a name alone for an array of names: ["f1", "f2"] -> "f[1-2]" # HERE
  clusters[0].members = "f[1-2]": expected an array
a malformed range: "s[1-2]", "odd"] -> "s[1-2", "odd"] # HERE
  machines[1].names: 's[1-2' is neither a name nor a range like node[01-08,12]
an empty name: name = "wide" -> name = " " # HERE
  job_classes[2].name: a name cannot be empty
an empty key: mixed = 77 -> "" = 77 # HERE
  job_classes[2].parallel_s."": a name cannot be empty
a name of two lines: name = "wide" -> name = "wi\\nde" # HERE
  job_classes[2].name: the name 'wi\nde' has a character that cannot be printed
a missing class of machines: [[machines]]\nnames = ["f[1-2]"]\nmachine_class = "fast"
  -> [[machines]] # HERE\nnames = ["f[1-2]"]
  the key 'machines[0].machine_class' is missing
a misspelled key of the second job class: name = "long" -> name = "long"\nprefered = ["fast"] # HERE
  unknown key 'prefered'; did you mean 'preferred'?
a misspelled table of a job class: name = "long"\n\n[job_classes.sequential_s]
  -> name = "long"\n\n[job_classes.sequential] # HERE
  unknown key 'sequential'; did you mean 'sequential_s'?
""")


WRONG_VALUES_IN_THE_FULL_SITE = of_keys("""
a rating of nothing: machines[0].rating = 2.5 | 0 | a number greater than 0
a negative rating: machines[0].rating = 2.5 | -2.5 | a number greater than 0
an infinite rating: machines[0].rating = 2.5 | inf | a finite number
no processors: machines[0].processors = 4 | 0 | a number greater than or equal to 1
half a processor: machines[0].processors = 4 | 4.5 | a whole number
processors beyond databases: machines[0].processors = 4 | 2147483648 | a number less than 2147483648
memory with its unit: machines[0].memory_mb = 2048 | "2 GB" | a number
no memory: machines[0].memory_mb = 2048 | 0 | a number greater than 0
negative storage: machines[0].storage_gb = 80.5 | -1 | a number greater than or equal to 0
a number for an operating system: machines[0].os = "Linux" | 95 | text in quotes
notional in quotes: machines[2].notional = true | "yes" | true or false
1 for true: only_listed_users = true | 1 | true or false
a number for the name of a size: job_classes[0].size = "cells" | 5 | text in quotes
negative traffic: job_classes[0].network_mbit_per_s = 12.5 | -12.5 | a number greater than or equal to 0
a time for a command: job_classes[0].commands.slow = "flow --small" | 30 | text in quotes
no jobs at most: users[0].most_jobs = 3 | 0 | a number greater than or equal to 1
true for a number of jobs: users[0].most_jobs = 3 | true | a whole number
a priority that is no whole number: users[0].highest_priority = 5 | 5.5 | a whole number
a great rating: machines[0].rating = 2.5 | 1000000000000000.0 | a number less than 1000000000000000
much memory: machines[0].memory_mb = 2048 | 1000000000000000.0 | a number less than 1000000000000000
much storage: machines[0].storage_gb = 80.5 | 1000000000000000.0 | a number less than 1000000000000000
one queue without brackets: users[0].queues = ["night", "day"] | "day" | an array
""") | of_lines(r"""
a priority beyond databases: highest_priority = 5 -> highest_priority = -2147483649 # HERE
  users[0].highest_priority = -2147483649: expected a number greater than or equal to -2147483648
an empty name of a user: [[users]]\nname = "cy" -> [[users]]\nname = "" # HERE
  users[2].name: a name cannot be empty
a right without a user: [[users.may_submit_as]]\nuser = "bob" -> [[users.may_submit_as]] # HERE
  the key 'users[0].may_submit_as[1].user' is missing
a misspelled key of machines: memory_mb = 2048 -> memory_md = 2048 # HERE
  unknown key 'memory_md'; did you mean 'memory_mb'?
a misspelled key of a user: most_jobs = 3 -> max_jobs = 3 # HERE
  unknown key 'max_jobs'; did you mean 'most_jobs'?
a right to submit to no queue: user = "cy"\nqueues = ["night"] -> user = "cy"\nqueues = [] # HERE
  users[0].may_submit_as[0].queues = []: expected 1 or more elements
a misspelled key of a right: user = "bob" -> user = "bob"\nqueue = ["day"] # HERE
  unknown key 'queue'; did you mean 'queues'?
""")


MISTAKES = [
    (SMALL, UNRESOLVED_NAMES),
    (FULL, UNRESOLVED_NAMES_IN_THE_FULL_SITE),
    (NODES, UNRESOLVED_NAMES_AT_A_SITE_OF_NODES),
    (SMALL, NAMED_TWICE),
    (FULL, NAMED_TWICE_IN_THE_FULL_SITE),
    (NODES, NAMED_TWICE_AT_A_SITE_OF_NODES),
    (SMALL, INCONSISTENCIES),
    (NODES, INCONSISTENCIES_AT_A_SITE_OF_NODES),
    (SMALL, WRONG_VALUES),
    (FULL, WRONG_VALUES_IN_THE_FULL_SITE),
]


@pytest.mark.parametrize(
    ("site", "old", "new", "sentence"),
    [
        pytest.param(site, *case, id=f"{k}, {name}")
        for k, (site, cases) in enumerate(MISTAKES)
        for name, case in cases.items()
    ],
)
def test_a_mistake_is_rejected_with_its_line_and_what_would_be_right(
    site: str, old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert_is_refused(changed(old, new, site), sentence, tmp_path)


def test_text_that_a_database_cannot_store_is_rejected_with_its_line(tmp_path: Path) -> None:
    text = changed('"fluid dynamics"', '"a \\u0000" # HERE', FULL)
    assert refusal(text, tmp_path).startswith(f"line {blamed_line(text)}: ")


def test_a_top_level_key_after_the_last_table_is_rejected_there(tmp_path: Path) -> None:
    text = SMALL + 'description = "meant for the site" # HERE\n'
    known = "displaces, mapping, name, priority, scheduler, users"
    assert_is_refused(text, f"unknown key 'description'; known here are {known}", tmp_path)


@pytest.mark.parametrize("key", ["name", "machine_classes", "machines", "job_classes"])
def test_a_missing_required_key_is_reported(key: str, tmp_path: Path) -> None:
    tables = {
        "name": 'name = "s"',
        "machine_classes": 'machine_classes = [{name = "k"}]',
        "machines": 'machines = [{names = ["m"], machine_class = "k"}]',
        "job_classes": 'job_classes = [{name = "j", sequential_s = {k = 1}}]',
    }
    read("\n".join(tables.values()), tmp_path)
    del tables[key]
    lack = "the site has no machines" if key == "machines" else f"the key '{key}' is missing"
    assert refusal("\n".join(tables.values()), tmp_path) == lack


def test_all_errors_of_a_file_are_reported_in_line_order(tmp_path: Path) -> None:
    text = changed('machine_class = "fast"', 'machine_class = "fats"').replace('"night"]', '"nihgt"]')
    assert refusal(text, tmp_path).split("\n") == [
        "line 13: the group of machines 1 names the machine class 'fats', which does not exist; "
        "did you mean 'fast'?",
        "line 67: queue 'day' names the queue 'nihgt', which does not exist; did you mean 'night'?",
    ]


def test_a_job_without_a_machine_is_not_reported_if_another_error_may_be_the_cause() -> None:
    file = importing.SiteFile.model_validate(
        {
            "name": "s",
            "machine_classes": [{"name": "k"}],
            "machines": [{"names": ["m", "m"], "machine_class": "q"}],
            "job_classes": [{"name": "j"}],
        }
    )
    assert [sentence.split(";")[0] for _, sentence in errors(file)] == [
        "machine 'm' is named twice",
        "the group of machines 1 names the machine class 'q', which does not exist",
    ]


def test_a_large_site_is_checked_in_linear_time() -> None:
    file = importing.SiteFile.model_validate(
        {
            "name": "large",
            "machine_classes": [{"name": "k"}],
            "machines": [{"names": ["n[1-40000]"], "machine_class": "k"}],
            "clusters": [{"name": f"c{k}", "members": [f"n[{k}001-{k}999]"]} for k in range(1, 40)],
            "job_classes": [{"name": "j", "sequential_s": {"k": 1}}],
        }
    )
    began = time.process_time()
    assert list(errors(file)) == []
    assert time.process_time() - began < 2.0


# -- whatever is in the file, it is read or refused with one sentence ------------------------------------


@pytest.fixture(scope="module")
def empty_database(shared_folder: Path) -> Engine:
    return store.create(parse_address(str(shared_folder / "empty.sqlite")))


def test_a_mutated_site_file_is_imported_or_rejected_with_plain_sentences(
    shared_folder: Path, empty_database: Engine
) -> None:
    path, seeds = shared_folder / "slips.toml", [text.encode() for text in (SMALL, FULL, NODES)]
    for number in range(up_to(500)):
        path.write_bytes(mutated(seeds, number, may_be_compressed=False))
        try:
            file = importing.read_site_file(path)
        except InvalidFile as error:
            assert_has_a_plain_sentence_for_each_mistake(str(error).replace(str(path), ""))
            continue
        with Session(empty_database) as session:
            try:
                put_site(session, file)
            except SiteConflict as conflict:
                assert_has_a_plain_sentence_for_each_mistake(str(conflict))
                continue
            session.expunge_all()
            reader = SiteReader(session, file.name)
            assert reader.as_scheduled() == site_of(file), number
            assert reader.as_file() == file, number


def test_the_collins_and_george_site_has_142_machines_in_17_clusters_of_8_and_one_of_6() -> None:
    file = importing.read_site_file(HCS_2001)
    sizes = sorted(len(cluster.members) for cluster in file.clusters)
    assert len(machine_names(file)) == 142
    assert sizes == [6] + [8] * 17
    assert sorted(name for cluster in file.clusters for name in cluster.members) == sorted(
        machine_names(file)
    )
    classes = {name: group.machine_class for group in file.machines for name in group.names}
    for cluster in file.clusters:
        assert len({classes[name] for name in cluster.members}) == 1, cluster.name
        assert cluster.name.startswith(classes[cluster.members[0]])


def test_at_that_site_parallel_jobs_speed_up_on_every_cluster_but_at_most_linearly() -> None:
    file = importing.read_site_file(HCS_2001)
    classes = {name: group.machine_class for group in file.machines for name in group.names}
    checked = 0
    for job_class in file.job_classes:
        for cluster in file.clusters:
            if cluster.name in job_class.parallel_s:
                alone_s = job_class.sequential_s[classes[cluster.members[0]]]
                together_s = job_class.parallel_s[cluster.name]
                assert alone_s / len(cluster.members) <= together_s * 1.001, (job_class.name, cluster.name)
                assert together_s < alone_s, (job_class.name, cluster.name)
                checked += 1
    assert checked == 4 * 18


# -- the file that is written ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [SMALL, FULL, NODES, HCS_2001.read_text()], ids=["small", "full", "nodes", "hcs-2001"]
)
def test_a_written_site_reads_as_the_same_site(text: str, tmp_path: Path) -> None:
    file = read(text, tmp_path)
    assert read(importing.site_text(file), tmp_path) == file


def with_floats(text: str, *keys: str) -> str:
    return re.sub(rf"^({'|'.join(keys)}) = (\d+)$", r"\1 = \2.0", text, flags=re.MULTILINE)


def test_a_site_is_written_with_folded_ranges_in_one_order_and_without_default_values(tmp_path: Path) -> None:
    keys = "memory_mb", "rating", "bandwidth_mbit_per_s", "latency_us", "fast", "quad", "exe_s", "output_mb"
    text = with_floats(FULL, *keys)
    text = changed('["sci", "lan"]', '["lan", "sci"]', text)
    text = changed('["f04", "f[01-03]"]', '["f[01-04]"]', text)
    text = changed('["night", "day"]', '["day", "night"]', text)
    _, *tables = re.split(r"^# .*\n|\n\n", text)
    # Measurements come before times, by tasks, and rights are in order of users.
    order = [*range(11), 17, 16, *range(11, 16), 18, 19, 20, 22, 21, 23, 24]
    assert importing.site_text(read(FULL, tmp_path)) == "\n\n".join(tables[k] for k in order)


def test_a_site_of_nodes_is_written_with_amounts_of_each_node_and_ranges_of_partitions(
    tmp_path: Path,
) -> None:
    text = importing.site_text(read(NODES, tmp_path))
    nodes = with_floats(NODES, "memory_mb", "max_time_s", "default_time_s")
    nodes = changed('["ib", "avx512"]', '["avx512", "ib"]', nodes)
    nodes = changed("h100 = 2\na100 = 4", "a100 = 4\nh100 = 2", nodes)
    nodes = changed('["g1", "n[03-04]"]', '["n[03-04]", "g1"]', nodes)
    first, end = "[[machines]]", "[[job_classes]]"
    assert text[text.index(first) : text.index(end)] == nodes[nodes.index(first) : nodes.index(end)]
    assert "memory_mb = 32004\n" in text
    assert "memory_mb_per_core" not in text
    assert "gpus = 4\n" in text
    assert "total_gpus" not in text


def test_the_142_machines_of_collins_and_george_are_written_as_ranges() -> None:
    file = importing.read_site_file(HCS_2001)
    text = importing.site_text(file)
    # Neighbouring groups of one class are one group of as many ranges as there are clusters.
    assert text.count("[[machines]]") == 9
    assert 'names = ["ultra2-300-a-[1-6]", "ultra2-300-b-[1-8]"]' in text
    assert 'members = ["p-133-a-[1-8]"]' in text
