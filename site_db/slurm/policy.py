"""The policy of a site, from an operator's files: `slurm.conf`, and what Slurm's accounting says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from scheduler.messages import abbreviated, plural
from scheduler.priority.policy import NORMAL, ROOT, Association, QualityOfService, ResourceLimits, SitePolicy
from site_db.files.input_errors import InvalidFile, remedy
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.limits import OF_ASSOCIATIONS, OF_QUALITIES, inherited, said, settings_of
from site_db.slurm.lines import Line
from site_db.slurm.priorities import read_priorities
from site_db.slurm.sacctmgr import Form, dump_lines, form_of, qualities, table_lines
from site_db.slurm.values import NotModelled, PolicySetting, amount


def read_policy(
    files: Sequence[Path], nodes: SiteNodes | None = None, has_nodes: bool = False, settings: str = ""
) -> SitePolicy:
    """The policy that files state, each of another form (`Form`), for these nodes, which its `slurm.conf`
    perhaps has (`has_nodes`); some `settings` of that are others. `notes` says what is not modelled. Raises
    InvalidFile with file and line."""
    by_form: dict[Form, Path] = {}
    for path in files:
        form = form_of(path)
        if form in by_form:
            raise InvalidFile(
                f"{path}: this is {form}, as is {by_form[form]}; expected one file of each form"
            )
        by_form[form] = path
    conf, dump, listed, shares = map(by_form.get, Form)
    ignored = NotModelled(has_memory=nodes is None or nodes.has_memory)
    known = {each.name: each for each in (_quality(line, ignored) for line in qualities(dump, listed))}
    names = {NORMAL, *known} if known else None
    if conf is None and settings:
        give = remedy("; give {}", ("--policy", "slurm.conf"))
        raise InvalidFile(f"the setting {settings} changes a slurm.conf, and the policy has none{give}")
    policy = SitePolicy() if conf is None else read_priorities(conf, ignored, names, has_nodes, settings)
    if nodes is not None:
        ignored.others += _of_partitions(policy, nodes)
    if conf is None:
        ignored.others.append(
            "no slurm.conf is among the files of the policy, so that jobs are served in the order in which "
            "they arrive, and no limit is enforced; give it, too"
        )
    if policy.multifactor is not None and dump is None and policy.multifactor.weights.fair_share:
        ignored.others.append(
            "there are no associations, so that there is no fair share and no limit of accounts and users; "
            "give what sacctmgr dump writes, too"
        )
    if policy.multifactor is not None and not known and policy.multifactor.weights.qos:
        ignored.others.append(
            "no QOS is defined, so that there are no priorities and no limits of QOS; give what "
            "'sacctmgr --parsable2 show qos' prints, too"
        )
    tree = _Tree(ignored, names)
    for line in () if dump is None else dump_lines(dump):
        tree.add(line)
    tree.add_root()
    if shares is not None and (policy.multifactor is None or policy.multifactor.reset_period != "now"):
        tree.add_usage(shares)
    groups = [*(each.group for each in tree.all), *(each.group for each in known.values())]
    if (
        any(group.minutes for group in groups)
        and "limits" in policy.enforces
        and "safe" not in policy.enforces
    ):
        ignored.others.append(
            "approximate: GrpTRESMins and GrpWall, because runs go on once they are used up, and Slurm ends "
            "these, unless AccountingStorageEnforce has safe"
        )
    if (how := policy.multifactor) is not None and how.reset_period not in ("", "now"):
        ignored.others.append(
            f"usage is set to 0 {how.reset_period} (PriorityUsageResetPeriod) in logs whose dates are known, "
            f"and elsewhere never"
        )
    elif how is not None and how.half_life_s == inf and any(group.minutes for group in groups):
        ignored.others.append(
            "usage never decays (PriorityDecayHalfLife=0) and is never set to 0 (PriorityUsageResetPeriod), "
            "so that jobs wait for ever once GrpTRESMins or GrpWall are used up"
        )
    return replace(policy, associations=tree.all, qualities=known, notes=ignored.sentences)


def _of_partitions(policy: SitePolicy, nodes: SiteNodes) -> Iterator[str]:
    """Sentences on partitions that are only in the policy, or only among those of the nodes."""
    stated = policy.partitions
    if lacking := [name for name in stated if not nodes.has_partition(name)]:
        yield f"the nodes have no {plural(len(lacking), 'partition')} {abbreviated(lacking)} of the policy"
    if stated and (lacking := [name for name in nodes.partitions if name not in stated]):
        yield (
            f"the policy does not have the {plural(len(lacking), 'partition')} {abbreviated(lacking)} of the "
            f"nodes: PriorityTier and PriorityJobFactor are 1 there, without a QOS"
        )


def _quality(line: Line, ignored: NotModelled) -> QualityOfService:
    name = line.pairs[0].value.lower()
    return QualityOfService(name, **said(settings_of(line, f"QOS {name}", ignored), OF_QUALITIES, ignored))


_Key = tuple[str, str]
"""The account and the user of an association; "" for that of the account itself."""


@dataclass
class _Tree:
    """The associations of a dump, as it is read. They have what they inherit."""

    ignored: NotModelled
    qualities: Collection[str] | None
    """The names of those that are defined, if that is known."""
    found: dict[_Key, Association] = field(default_factory=dict)
    _account: str = ROOT
    """That of the lines that follow."""
    _default_qos: dict[_Key, str] = field(default_factory=dict)
    _default_account: dict[str, PolicySetting] = field(default_factory=dict)
    """By user."""
    _of_partitions: set[_Key] = field(default_factory=set)

    def add(self, line: Line) -> None:
        """Raises InvalidFile."""
        kind, name = line.pairs[0].name, line.pairs[0].value
        if kind in ("cluster", "machine"):
            self._add(line, "the cluster", Association(ROOT, parent=""))
        elif kind == "qos":
            pass
        elif (ROOT, "") not in self.found:
            raise line.mistake("there is no cluster before it; expected a line like Cluster - 'name'")
        elif kind == "parent":
            self._account = name.lower()
            self._check_account(PolicySetting(line, "what follows", *line.pairs[0]))
        elif kind in ("account", "project"):
            self._add(line, f"account {name}", Association(name.lower(), parent=self._account))
        elif kind == "user":
            of = f"user {name} in account {self._account}"
            self._add(line, of, Association(self._account, name, self._account))
        else:
            raise line.mistake(f"{line.pairs[0].key} is none of Cluster, QOS, Parent, Account and User")

    def add_root(self) -> None:
        """Add the user root in the account root, whom Slurm's database always has."""
        if (above := self.found.get((ROOT, ""))) is not None:
            self.found.setdefault(
                (ROOT, ROOT), replace(above, user=ROOT, parent=ROOT, group=ResourceLimits())
            )

    def _add(self, line: Line, of: str, one: Association) -> None:
        listed = [*settings_of(line, of, self.ignored)]
        settings = {setting.key: setting for setting in listed}
        key = one.account, one.user
        if partition := settings.get("Partition"):
            self.ignored.add(partition, "users may do the same in all partitions")
            if key in self.found:
                return
            self._of_partitions.add(key)
        elif key in self._of_partitions:
            self._of_partitions.remove(key)
            del self.found[key]
        if key in self.found:
            raise line.mistake(f"{of} is defined twice; expected one line")
        if default := settings.get("DefaultAccount"):
            self._default_account[one.user] = default
        values = said(listed, OF_ASSOCIATIONS, self.ignored)
        above = self.found.get((one.parent, ""), Association(ROOT))
        one = replace(one, **{"priority": above.priority, **values, "qos": self._qos(one, settings)})
        self.found[key] = replace(one, own=inherited(one.own, above.own), job=inherited(one.job, above.job))

    def _qos(self, one: Association, settings: Mapping[str, PolicySetting]) -> tuple[str, ...]:
        """The names of its QOS, of which the first is that of a job that names none. Raises InvalidFile."""
        above = one.parent, ""
        names = dict.fromkeys(self.found[above].qos if above in self.found else ())
        if listed := settings.get("QOS"):
            each = [*filter(None, listed.value.lower().split(","))]
            if any(name[0] not in "+-" for name in each):
                names = {}
            for name in each:
                listed.check_qos(name.lstrip("+-"), self.qualities)
                names[name.lstrip("+-")] = None
                if name[0] == "-":
                    del names[name[1:]]
        default = self._default_qos.get(above, "")
        if stated := settings.get("DefaultQOS"):
            default = stated.value.lower()
            stated.check_qos(default, self.qualities)
        self._default_qos[one.account, one.user] = default
        wanted = default, self._default_qos.get((ROOT, ""), ""), NORMAL
        first = next((name for name in wanted if name in names), None)
        return tuple(sorted(names, key=lambda name: name != first))

    def _check_account(self, setting: PolicySetting) -> None:
        if (setting.value.lower(), "") not in self.found:
            raise setting.mistake(f"an account that has a line, like Account - '{setting.value}'")

    @property
    def all(self) -> tuple[Association, ...]:
        """Accounts, and users, with the default account of each first. Raises InvalidFile."""
        for setting in self._default_account.values():
            self._check_account(setting)
        default = {user: setting.value.lower() for user, setting in self._default_account.items()}
        users = [one for one in self.found.values() if one.user]
        users.sort(key=lambda one: default.get(one.user) != one.account)
        return (*(one for one in self.found.values() if not one.user), *users)

    def add_usage(self, path: Path) -> None:
        """Add what `sshare` printed: of an account, without the usage of those below it. Raises
        InvalidFile."""
        if not self.found:
            raise InvalidFile(
                f"{path}: there are no associations that have this usage; give {Form.DUMP}, too"
            )
        own = defaultdict[_Key, float](float)
        for line in table_lines(path, "Account", "account", Form.SHARES):
            account, user = line.pairs[0].value.lower(), line.get("user")
            of, used = f"{account}, {user or 'all users'}", line.get("grptresraw")
            usage = PolicySetting(line, of, "RawUsage", line.get("rawusage"))
            if (one := self.found.get((account, user))) is not None:
                own[account, user] += usage.factor
                own[one.parent, ""] -= usage.factor
                minutes = PolicySetting(line, of, "GrpTRESRaw", used).tres(amount, self.ignored)
                self.found[account, user] = replace(one, used=minutes)
            elif usage.factor:
                self.ignored.add(usage, "the associations do not have it")
        for key in own.keys() & self.found.keys():
            self.found[key] = replace(self.found[key], usage=max(own[key], 0.0))
