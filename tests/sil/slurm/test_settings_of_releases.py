"""An operator's slurm.conf under another release: what that refuses or ignores, or calls otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler import UserError
from sil.cli.app import app
from sil.slurm.configuration import Configuration, read_configuration
from sil.slurm.protocol.releases import Release
from site_db.files.input_errors import InvalidFile

NODES = "NodeName=n[1-4] CPUs=1\nPartitionName=p Nodes=ALL\n"


def of(text: str, folder: Path, release: str) -> Configuration:
    found = Release.of(release)
    assert found is not None
    (folder / "slurm.conf").write_text(text)
    return read_configuration(folder / "slurm.conf", found)


@pytest.mark.parametrize(
    ("setting", "release", "says"),
    [
        ("SelectType=select/cons_res", "23.02.8", ""),
        ("SelectType=select/cons_res", "23.11.1", "SelectType=select/cons_res (use select/cons_tres)"),
        (
            "SchedulerParameters=bf_continue,max_job_bf=9",
            "22.05.8",
            "SchedulerParameters=max_job_bf=9 (use bf_max",
        ),
        (
            "TopologyPlugin=topology/3d_torus",
            "25.05.1",
            "TopologyPlugin=topology/3d_torus (use topology/torus3d",
        ),
        ("SelectTypeParameters=CR_Core,OTHER_CONS_TRES", "24.11.5", "SelectTypeParameters=OTHER_CONS_TRES"),
        ("ReconfigFlags=KeepNodeStateFuture", "26.05.5", "ReconfigFlags=KeepNodeStateFuture"),
    ],
)
def test_what_the_controller_would_refuse_ends_the_command_before_the_first_run(
    setting: str, release: str, says: str, tmp_path: Path
) -> None:
    if not says:
        assert setting in of(f"{setting}\n{NODES}", tmp_path, release).lines
        return
    with pytest.raises(InvalidFile) as caught:
        of(f"# ours\n{setting}\n{NODES}", tmp_path, release)
    assert str(caught.value).startswith(
        f"Slurm {release} refuses 1 setting: {tmp_path}/slurm.conf, line 2: {says}"
    )
    with pytest.raises(
        UserError, match=rf"Slurm {release} refuses 1 setting: as given with the scheduler's name"
    ):
        of(NODES, tmp_path, release).with_settings(setting)


@pytest.mark.parametrize(
    ("setting", "release", "note"),
    [
        ("FastSchedule=1", "22.05.8", "ignores 1 setting: {}: FastSchedule=1"),
        (
            "FastSchedule=2",
            "22.05.8",
            "refuses 1 setting: {}: FastSchedule=2 (use SlurmdParameters=config_over",
        ),
        ("SlurmctldPlugstack=nonstop", "23.02.8", "refuses 1 setting: {}: SlurmctldPlugstack=nonstop"),
        ("GetEnvTimeout=5", "25.05.1", "ignores 1 setting: {}: GetEnvTimeout=5"),
        ("FrontendName=f FrontendAddr=1.2.3.4", "26.05.5", "refuses 1 setting: {}: FrontendName=f"),
        (
            "JobSubmitPlugins=lua,job_submit/cray_aries",
            "24.05.1",
            "refuses 1 setting: {}: JobSubmitPlugins=job_s",
        ),
        ("CacheGroups=0", "22.05.8", "refuses 1 setting: {}: CacheGroups=0 (no such key)"),
        (
            "PartitionName=q Nodes=n1 DefualtTime=5",
            "26.05.5",
            "refuses 1 setting: {}: DefualtTime=5 (no such key)",
        ),
        ("HealthCheckTimeout=5 LogTimeFormat=x", "26.05.5", ""),
        ("NewInTheNextRelease=5", "26.11.1", ""),
    ],
)
def test_what_is_not_passed_on_is_noted_with_its_line(
    setting: str, release: str, note: str, tmp_path: Path
) -> None:
    notes = of(f"{NODES}{setting}\n", tmp_path, release).notes
    expected = f"Slurm {release} {note.format(f'{tmp_path}/slurm.conf, line 3')}"
    assert [found[: len(expected)] for found in notes if " setting: " in found] == (
        [expected] if note else []
    )


@pytest.mark.parametrize(
    ("partition", "release", "line"),
    [
        ("Exclusive=node", "26.05.5", "Exclusive=node"),
        ("Exclusive=NODE", "22.05.8", "OverSubscribe=EXCLUSIVE"),
        ("OverSubscribe=FORCE Exclusive=node", "24.11.5", "OverSubscribe=EXCLUSIVE"),
        ("Exclusive=USER", "24.11.5", "ExclusiveUser=YES"),
        ("Exclusive=TOPO", "24.05.1", "ExclusiveTopo=YES"),
        ("OverSubscribe=EXCLUSIVE Exclusive=NO", "22.05.8", "OverSubscribe=NO"),
        ("OverSubscribe=FORCE:2 Exclusive=NONE", "22.05.8", "OverSubscribe=FORCE:2"),
    ],
)
def test_whole_nodes_are_requested_in_the_words_of_the_release(
    partition: str, release: str, line: str, tmp_path: Path
) -> None:
    found = of(f"{NODES}PartitionName=q Nodes=n1 {partition}\n", tmp_path, release)
    assert found.lines[-1] == f"PartitionName=q Nodes=n1 {line}"
    became = [str(item).partition("line 3: ")[2] for item in found.replaced]
    assert became in ([], [f"{partition.split()[-1]} became {line}: Exclusive is a key of 26.05"])


def test_a_partition_that_an_earlier_release_cannot_have_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFile, match=r"line 3: Slurm 23\.11\.1 has nothing like Exclusive=TOPO; change it"
    ):
        of(f"{NODES}PartitionName=q Nodes=n1 Exclusive=TOPO\n", tmp_path, "23.11.1")


def test_topology_in_yaml_takes_the_place_of_topology_conf_since_25_05(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-4]\n")
    text = "- topology: t\n  tree:\n    switches:\n      - {switch: s1, nodes: 'n[1-4]'}  # all\n"
    (tmp_path / "topology.yaml").write_text(text)
    before = of(f"TopologyPlugin=topology/tree\n{NODES}", tmp_path, "24.11.5")
    assert (before.files.get("topology.yaml"), before.files["topology.conf"]) == (
        None,
        "SwitchName=s Nodes=n[1-4]\n",
    )
    assert before.notes[-1].endswith("have no effect: topology.yaml")
    since = of(f"TopologyPlugin=topology/tree\n{NODES}", tmp_path, "25.05.1")
    assert (since.files["topology.yaml"], since.files.get("topology.conf"), since.notes) == (text, None, ())
    (tmp_path / "topology.yaml").write_text("- topology: t\n  file: /etc/passwd\n")
    with pytest.raises(
        InvalidFile, match=r"topology\.yaml, line 2: there is '/'; expected names, numbers and lists"
    ):
        of(NODES, tmp_path, "25.05.1")


def test_the_next_release_is_checked_without_having_it(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"SelectType=select/cons_res\nGetEnvTimeout=3\n{NODES}")
    for release, code, says in (
        ("23.02", 0, f"Nothing in {path} is known to be refused or ignored by Slurm 23.02.\n"),
        (
            "24.11",
            1,
            f"Slurm 24.11 refuses {path}, line 1: SelectType=select/cons_res (use select/cons_tres)\n",
        ),
        (
            "26.05",
            1,
            f"Slurm 26.05 refuses {path}, line 1: SelectType=select/cons_res (use select/cons_tres)\n"
            f"Slurm 26.05 ignores {path}, line 2: GetEnvTimeout=3\n",
        ),
    ):
        result = CliRunner().invoke(app, ["slurm", "check", str(path), "--release", release])
        assert (result.exit_code, result.stdout) == (code, says)
