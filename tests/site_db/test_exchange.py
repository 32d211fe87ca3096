from __future__ import annotations

import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from site_db import exchange, sites, store, toml_file
from site_db.toml_file import InvalidFile
from tests.site_db.site_texts import (
    HCS_2001,
    SMALL,
    assert_is_one_plain_sentence,
    blamed_line,
    changed,
    read,
    refusal,
    site_of,
)


def assert_is_refused(text: str, sentence: str, folder: Path) -> None:
    assert refusal(text, folder) == f"line {blamed_line(text)}: {sentence}"


def test_the_small_site_is_read_with_its_ranges_expanded(tmp_path: Path) -> None:
    file = read(SMALL, tmp_path)
    assert file.machine_names == ["f1", "f2", "s1", "s2", "odd"]
    assert [cluster.members for cluster in file.clusters] == [("f1", "f2"), ("f2", "s1", "s2")]
    assert [cluster.least_share for cluster in file.clusters] == [1.0, 0.5]
    assert [x.latency_us for x in file.interconnects] == [0.0, 10.0]
    assert [queue.users for queue in file.queues] == [("ann", "bob"), None, ()]
    assert list(file.problems()) == []


def test_a_cluster_that_names_a_machine_that_does_not_exist_is_refused_with_file_line_and_hint(
    tmp_path: Path,
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(changed('"f2", "s[1-2]"', '"f22", "s[1-2]"'))
    with pytest.raises(InvalidFile) as caught:
        exchange.read_site_file(path)
    assert str(caught.value) == (
        f"{path}, line 35: cluster 'mixed' names the machine 'f22', which does not exist; did you mean 'f2'?"
    )


NAMES_THAT_LEAD_NOWHERE = {
    "a member in an array of several lines": (
        '["f2", "s[1-2]"]',
        '[\n  "f2",\n  # s\n  "Z", # HERE\n]',
        "cluster 'mixed' names the machine 'Z', which does not exist; the site has f1, f2, s1, s2, odd",
    ),
    "a member of a range": (
        '["f2", "s[1-2]"]',
        '["f2", "s[1-3]"] # HERE',
        "cluster 'mixed' names the machine 's3', which does not exist; the site has f1, f2, s1, s2, odd",
    ),
    "an interconnect of a cluster": (
        '["lan", "sci"]',
        '["lan", "scii"] # HERE',
        "cluster 'pair' names the interconnect 'scii', which does not exist; did you mean 'sci'?",
    ),
    "the class of machines": (
        'odd"]\nmachine_class = "slow"',
        'odd"]\nmachine_class = "slwo" # HERE',
        "the group of machines 2 names the machine class 'slwo', which does not exist; did you mean 'slow'?",
    ),
    "a class of machines that runs a job class": (
        "slow = 30.5",
        "# slow\nslwo = 30.5 # HERE",
        "job class 'short' names the machine class 'slwo', which does not exist; did you mean 'slow'?",
    ),
    "a cluster that runs a job class": (
        "mixed = 77",
        "# HER\n'mixt' = 77 # HERE",
        "job class 'wide' names the cluster 'mixt', which does not exist; did you mean 'mixed'?",
    ),
    "a preferred class of machines": (
        '["slow", "fast"]',
        '["slow", "vector"] # HERE',
        "job class 'short' names the machine class 'vector', which does not exist; the site has fast, slow",
    ),
    "a queue to displace": (
        '["night"]',
        '["nihgt"] # HERE',
        "queue 'day' names the queue 'nihgt', which does not exist; did you mean 'night'?",
    ),
}


@pytest.mark.parametrize(
    ("old", "new", "sentence"), NAMES_THAT_LEAD_NOWHERE.values(), ids=NAMES_THAT_LEAD_NOWHERE
)
def test_a_name_that_leads_nowhere_is_refused_with_the_nearest_name_or_what_the_site_has(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert_is_refused(changed(old, new), sentence, tmp_path)


def test_where_there_is_nothing_to_name_the_hint_says_so(tmp_path: Path) -> None:
    text = SMALL[: SMALL.index("[[interconnects]]")] + SMALL[SMALL.index("[[clusters]]") :]
    text = changed('interconnects = ["lan", "sci"]', 'interconnects = ["lan"] # HERE', text)
    sentence = "cluster 'pair' names the interconnect 'lan', which does not exist; the site has none"
    assert_is_refused(text, sentence, tmp_path)


def test_of_many_names_the_hint_shows_five(tmp_path: Path) -> None:
    text = changed('"odd"]', '"odd", "extra"]').replace('["f2", "s[1-2]"]', '["UNKNOWN"]')
    assert refusal(text, tmp_path).endswith("the site has f1, f2, s1, s2, odd, ...")


NAMED_TWICE = {
    "a machine class": (
        'name = "slow"',
        '# once\nname = "fast" # HERE',
        "machine class 'fast' is named twice",
    ),
    "an interconnect": ('name = "sci"', 'name = "lan" # HERE', "interconnect 'lan' is named twice"),
    "a cluster": ('name = "mixed"', 'name = "pair" # HERE', "cluster 'pair' is named twice"),
    "a job class": ('name = "wide"', 'name = "short" # HERE', "job class 'short' is named twice"),
    "a queue": ('name = "closed"', 'name = "day" # HERE', "queue 'day' is named twice"),
    "a machine of two groups": ('"odd"]', '"f2"] # HERE', "machine 'f2' is named twice"),
    "a machine of two ranges": ('"odd"]', '"s[2-3]"] # HERE', "machine 's2' is named twice"),
    "a machine of the last of many groups": (
        '[[interconnects]]\nname = "lan"',
        '[[machines]]\nnames = ["x[1-9]"]\nmachine_class = "slow"\n'
        '[[machines]]\nnames = [\n  "y",\n  "x9", # HERE\n]\nmachine_class = "slow"\n'
        '[[interconnects]]\nname = "lan"',
        "machine 'x9' is named twice",
    ),
    "a member": (
        '["f1", "f2"]',
        '["f1", "f2", "f[1-2]"] # HERE',
        "cluster 'pair': machine 'f1' is named twice",
    ),
    "an interconnect of a cluster": (
        '["lan", "sci"]',
        '["lan", "sci", "lan"] # HERE',
        "cluster 'pair': interconnect 'lan' is named twice",
    ),
    "a preferred machine class": (
        '["slow", "fast"]',
        '["slow", "slow"] # HERE',
        "job class 'short': machine class 'slow' is named twice",
    ),
    "a user": ('["ann", "bob"]', '["ann", "bob", "ann"] # HERE', "queue 'day': user 'ann' is named twice"),
    "a displaced queue": (
        '["night"]',
        '[\n"night",\n"closed",\n"night", # HERE\n]',
        "queue 'day': queue 'night' is named twice",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), NAMED_TWICE.values(), ids=NAMED_TWICE)
def test_a_name_that_is_given_twice_is_refused_with_the_line_of_the_second(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert_is_refused(changed(old, new), sentence, tmp_path)


WHAT_DOES_NOT_FIT = {
    "a cluster named like a machine": (
        'name = "mixed"',
        'name = "odd" # HERE',
        "'odd' is the name of a machine and of a cluster",
    ),
    "a cluster without members": (
        'members = ["f1", "f2"]',
        "members = [] # HERE",
        "cluster 'pair' has no members",
    ),
    "a queue that displaces itself": (
        '["night"]',
        '["night", "day"] # HERE',
        "queue 'day' cannot displace itself",
    ),
    "a job class without a time": (
        'name = "wide"\n\n[job_classes.parallel_s]\nmixed = 77',
        'name = "wide"\n\n[job_classes.sequential_s] # HERE',
        "job class 'wide' has no machine that can run it; give it a time in sequential_s for a class that "
        "has machines (fast, slow), or in parallel_s for a cluster",
    ),
    "a job class for machines that the site has not got": (
        'name = "slow"\n\n[[machines]]',
        'name = "slow"\n\n[[machine_classes]]\nname = "cray"\n\n'
        '[[job_classes]]\nname = "vector"\nsequential_s.cray = 3 # HERE\n\n[[machines]]',
        "job class 'vector' has no machine that can run it; give it a time in sequential_s for a class that "
        "has machines (fast, slow), or in parallel_s for a cluster",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), WHAT_DOES_NOT_FIT.values(), ids=WHAT_DOES_NOT_FIT)
def test_what_does_not_fit_together_is_refused_with_its_line(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert_is_refused(changed(old, new), sentence, tmp_path)


def test_a_site_without_machines_is_refused(tmp_path: Path) -> None:
    text = 'name = "s"\nmachine_classes = [{name = "k"}]\njob_classes = []\nmachines = [] # HERE\n'
    assert_is_refused(text, "the site has no machines", tmp_path)


def test_a_group_of_machines_without_names_is_no_machine_to_run_on(tmp_path: Path) -> None:
    text = changed('names = ["f[1-2]"]', "names = []").replace('["f1", "f2"]', '["s1"]')
    text = text.replace('["f2", "s[1-2]"]', '["s1"]')
    assert "job class 'long' has no machine that can run it" in refusal(text, tmp_path)


WRONG_VALUES = {
    "true for a bandwidth": (
        "bandwidth_mbit_per_s = 1280.5",
        "bandwidth_mbit_per_s = true # HERE",
        "interconnects[1].bandwidth_mbit_per_s = true: expected a number",
    ),
    "a bandwidth in quotes": (
        "bandwidth_mbit_per_s = 1280.5",
        'bandwidth_mbit_per_s = "1280" # HERE',
        'interconnects[1].bandwidth_mbit_per_s = "1280": expected a number',
    ),
    "a negative latency": (
        "latency_us = 10",
        "latency_us = -10 # HERE",
        "interconnects[1].latency_us = -10: expected a number greater than or equal to 0",
    ),
    "true for a latency": (
        "latency_us = 10",
        "latency_us = true # HERE",
        "interconnects[1].latency_us = true: expected a number",
    ),
    "a share of none": (
        "least_share = 0.5",
        "least_share = 0 # HERE",
        "clusters[1].least_share = 0: expected a number greater than 0",
    ),
    "a share of more than all": (
        "least_share = 0.5",
        "least_share = 50 # HERE",
        "clusters[1].least_share = 50: expected a number less than or equal to 1",
    ),
    "a negative time": (
        "slow = 30.5",
        "slow = -30.5 # HERE",
        "job_classes[0].sequential_s.slow = -30.5: expected a number greater than 0",
    ),
    "a time of nan on a cluster": (
        "mixed = 77",
        "mixed = nan # HERE",
        "job_classes[2].parallel_s.mixed = nan: expected a finite number",
    ),
    "a time with its unit": (
        "slow = 30.5",
        'slow = "30.5 s" # HERE',
        'job_classes[0].sequential_s.slow = "30.5 s": expected a number',
    ),
    "a mapping that does not exist": (
        'mapping = "remap"',
        'mapping = "Remap" # HERE',
        "queues[1].mapping = \"Remap\": expected 'commit' or 'remap'",
    ),
    "a priority that no database holds": (
        "priority = 2",
        "priority = 99999999999999999999 # HERE",
        "queues[0].priority = 99999999999999999999: expected a number less than 2147483648",
    ),
    "a priority that is no whole number": (
        "priority = 2",
        "priority = 2.5 # HERE",
        "queues[0].priority = 2.5: expected a whole number",
    ),
    "a name alone for an array of names": (
        '["f1", "f2"]',
        '"f[1-2]" # HERE',
        'clusters[0].members = "f[1-2]": expected an array',
    ),
    "a malformed range": (
        '"s[1-2]", "odd"]',
        '"s[1-2", "odd"] # HERE',
        "machines[1].names: 's[1-2' is no name and no range like node[01-08,12]",
    ),
    "an empty name": ('name = "wide"', 'name = " " # HERE', "job_classes[2].name: a name cannot be empty"),
    "an empty key": (
        "mixed = 77",
        '"" = 77 # HERE',
        'job_classes[2].parallel_s."": a name cannot be empty',
    ),
    "a name of two lines": (
        'name = "wide"',
        'name = "wi\\nde" # HERE',
        "job_classes[2].name: the name 'wi\\nde' has a character that cannot be printed",
    ),
    "a missing class of machines": (
        '[[machines]]\nnames = ["f[1-2]"]\nmachine_class = "fast"',
        '[[machines]] # HERE\nnames = ["f[1-2]"]',
        "the key 'machines[0].machine_class' is missing",
    ),
    "a misspelled key of the second job class": (
        'name = "long"',
        'name = "long"\nprefered = ["fast"] # HERE',
        "unknown key 'prefered'; did you mean 'preferred'?",
    ),
    "a misspelled table of a job class": (
        'name = "long"\n\n[job_classes.sequential_s]',
        'name = "long"\n\n[job_classes.sequential] # HERE',
        "unknown key 'sequential'; did you mean 'sequential_s'?",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_a_slip_of_the_keyboard_is_refused_with_line_value_and_what_was_expected(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert_is_refused(changed(old, new), sentence, tmp_path)


def test_a_key_that_slipped_into_the_last_table_is_refused_there(tmp_path: Path) -> None:
    text = SMALL + 'description = "meant for the site" # HERE\n'
    known = "displaces, mapping, name, priority, scheduler, users"
    assert_is_refused(text, f"unknown key 'description'; known here are {known}", tmp_path)


@pytest.mark.parametrize("key", ["name", "machine_classes", "machines", "job_classes"])
def test_a_site_lacks_what_it_cannot_do_without(key: str, tmp_path: Path) -> None:
    tables = {
        "name": 'name = "s"',
        "machine_classes": 'machine_classes = [{name = "k"}]',
        "machines": 'machines = [{names = ["m"], machine_class = "k"}]',
        "job_classes": 'job_classes = [{name = "j", sequential_s = {k = 1}}]',
    }
    read("\n".join(tables.values()), tmp_path)
    del tables[key]
    assert refusal("\n".join(tables.values()), tmp_path) == f"the key '{key}' is missing"


def test_the_first_of_several_problems_is_the_one_that_is_told(tmp_path: Path) -> None:
    text = changed('machine_class = "fast"', 'machine_class = "fats" # HERE').replace('"night"]', '"nihgt"]')
    assert_is_refused(
        text,
        "the group of machines 1 names the machine class 'fats', which does not exist; did you mean 'fast'?",
        tmp_path,
    )
    file = exchange.SiteFile.model_validate(
        {
            "name": "s",
            "machine_classes": [{"name": "k"}],
            "machines": [{"names": ["m", "m"], "machine_class": "q"}],
            "job_classes": [{"name": "j"}],
        }
    )
    assert [sentence.split(";")[0] for _, sentence in file.problems()] == [
        "machine 'm' is named twice",
        "the group of machines 1 names the machine class 'q', which does not exist",
        "job class 'j' has no machine that can run it",
    ]


def test_the_problems_of_a_site_with_many_machines_and_clusters_are_found_in_time_linear_in_its_size() -> (
    None
):
    file = exchange.SiteFile.model_validate(
        {
            "name": "large",
            "machine_classes": [{"name": "k"}],
            "machines": [{"names": ["n[1-40000]"], "machine_class": "k"}],
            "clusters": [{"name": f"c{k}", "members": [f"n[{k}001-{k}999]"]} for k in range(1, 40)],
            "job_classes": [{"name": "j", "sequential_s": {"k": 1}}],
        }
    )
    began = time.process_time()
    assert list(file.problems()) == []
    assert time.process_time() - began < 2.0


# -- whatever is in the file, it is read or refused with one sentence ------------------------------------

SNIPPETS = (
    *"[]{}=,.#'\"\n\\\t\r\x00é²", "[[", "]]", "''", '"""', "nan", "-inf", "-1", "0", "1e400", "9" * 30,
    "true", "2001-01-01", "[[queues]]\n", "[clusters]\n", 'name = "f1"\n', "x = 1\n", "[[1]]", "{}",
    "f[1-99]", "[job_classes.parallel_s]\n", 'displaces = ["day"]\n',
)  # fmt: skip


@st.composite
def mutated_sites(draw: st.DrawFn) -> str:
    """The small site after a few slips: text gone, put in, doubled or moved, a word for another."""
    text = SMALL
    words = sorted(set(SMALL.split()))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 1, 1, 2, 8, 40))))
        kind = draw(st.sampled_from(("delete", "insert", "double", "word", "line", "move")))
        if kind == "delete":
            text = text[:start] + text[end:]
        elif kind == "insert":
            text = text[:start] + draw(st.sampled_from(SNIPPETS)) + text[end:]
        elif kind == "double":
            text = text[:end] + text[start:]
        elif kind == "word":
            old, new = draw(st.sampled_from(words)), draw(st.sampled_from((*words, *SNIPPETS)))
            text = text.replace(old, new, draw(st.integers(1, 3)))
        else:
            lines = text.split("\n")
            gone = lines.pop(draw(st.integers(0, len(lines) - 1)))
            if kind == "move":
                lines.insert(draw(st.integers(0, len(lines))), gone)
            text = "\n".join(lines)
    return text


@pytest.fixture(scope="module")
def empty_database(shared_folder: Path) -> Engine:
    return store.create(shared_folder / "empty.sqlite")


@settings(max_examples=150, deadline=None)
@given(text=mutated_sites())
def test_a_site_file_with_slips_goes_into_the_database_or_is_refused_with_one_sentence(
    text: str, shared_folder: Path, empty_database: Engine
) -> None:
    path = shared_folder / "slips.toml"
    path.write_text(text, newline="")
    try:
        file = exchange.read_site_file(path)
    except InvalidFile as error:
        assert_is_one_plain_sentence(str(error).removeprefix(str(path)))
        return
    with Session(empty_database) as session:
        sites.add_site(session, file)
        session.expunge_all()
        assert sites.load_site(session, file.name) == site_of(file)


@settings(max_examples=150, deadline=None)
@given(content=st.binary() | st.text(alphabet=string.printable).map(str.encode) | st.text().map(str.encode))
def test_any_bytes_are_refused_with_one_sentence(content: bytes, shared_folder: Path) -> None:
    refusal(content, shared_folder)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(exchange.SiteFile.model_fields)), TREES | st.lists(TREES), max_size=8
    ),
)
def test_any_values_under_the_known_keys_are_accepted_or_refused_with_one_sentence(
    data: dict[str, object],
) -> None:
    path = Path("site.toml")
    try:
        toml_file.validate(data, exchange.SiteFile, "", path)
    except InvalidFile as error:
        assert_is_one_plain_sentence(str(error))


def test_the_site_of_collins_and_george_has_142_machines_in_18_clusters_of_which_17_have_8_and_one_6() -> (
    None
):
    file = exchange.read_site_file(HCS_2001)
    sizes = sorted(len(cluster.members) for cluster in file.clusters)
    assert len(file.machine_names) == 142
    assert sizes == [6] + [8] * 17
    assert sorted(name for cluster in file.clusters for name in cluster.members) == sorted(file.machine_names)
    classes = {name: group.machine_class for group in file.machines for name in group.names}
    for cluster in file.clusters:
        assert len({classes[name] for name in cluster.members}) == 1, cluster.name
        assert cluster.name.startswith(classes[cluster.members[0]])


def test_on_that_site_a_parallel_job_gains_on_every_cluster_but_never_more_than_its_size() -> None:
    file = exchange.read_site_file(HCS_2001)
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
