"""The verdicts of a validation, as replays and plans of the site cite them, unless they are of other nodes,
another policy or another scheduler."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from pydantic import BaseModel

from scheduler import UserError
from scheduler.messages import counted
from sil.experiment.provenance import code_under_test
from sil.rehearsal.uses import TITLES, Grade, Use
from sil.report.page import Notice
from sil.runs.under_test import SlurmProgram, UnderTest
from site_db.files.access import read_text
from site_db.site_file.cluster import SiteNodes

VERDICTS = "verdicts.json"
POLICY = "another policy"


class Subject(BaseModel):
    """What a validation is about: the scheduler, and digests of the nodes with their partitions, and of the
    policy."""

    scheduler: str
    nodes: str
    policy: str

    @classmethod
    def of(cls, cluster: SiteNodes | None, scheduler: UnderTest) -> Self:
        """Slurm's controller has the policy of its own files."""
        cluster = cluster or SiteNodes({}, {}, {})
        policy = None if cluster.policy is None else asdict(replace(cluster.policy, notes=()))
        files = code_under_test(scheduler) if isinstance(scheduler, SlurmProgram) else ""
        nodes = {
            name: replace(node, memory_mib=cluster.has_memory and node.memory_mib)
            for name, node in cluster.nodes.items()
        }
        of_nodes = asdict(replace(cluster, nodes=nodes, policy=None, notes=()))
        return cls(scheduler=scheduler.label, nodes=_digest(of_nodes), policy=_digest([policy, files]))


def _digest(value: object) -> str:
    """A digest that is equal for equal values; sets have no order."""
    return hashlib.sha256(json.dumps(value, default=sorted, sort_keys=True).encode()).hexdigest()


def cited(
    folder: str | Path | None, cluster: SiteNodes | None, schedulers: Sequence[UnderTest], uses: Sequence[Use]
) -> Notice:
    """What the validation in a folder says of these uses of simulations under these schedulers: a "refusal"
    if it is not good enough for one, or of something else. Raises UserError."""
    if folder is None:
        none = "No validation says how near simulations of this site are to what happened"
        return Notice("note", f"{none}: `sil validate` makes one, and --validation names its folder.")
    try:
        found = json.loads(read_text(Path(folder) / VERDICTS))
        subject, about = Subject(**found["subject"]), f"{found['log']}, {counted(found['jobs'], 'job')}"
        judged = {
            Use(each["use"]): (Grade(each["grade"]), "; ".join(each["why"]))
            for each in found["reproduction"]["judgements"]
            if each["kind"] == "all"
        }
    except (OSError, ValueError, LookupError, TypeError, UserError):
        raise UserError(
            f"--validation {folder}: there is no {VERDICTS} of a validation; expected the folder of "
            f"`sil validate --out {folder}`"
        ) from None
    here = {each.label: Subject.of(cluster, each) for each in schedulers}.get(subject.scheduler)
    by = f"the validation in {folder} ({about}, under {subject.scheduler})"
    if here is None:
        differs = ["another scheduler"]
    else:
        others = {"other nodes": here.nodes != subject.nodes, POLICY: here.policy != subject.policy}
        differs = [what for what, is_other in others.items() if is_other]
    if differs == [POLICY] and Use.MEANS in uses:
        uses, by = (Use.MEANS, Use.JOBS), f"{by}, for changes of the policy that it is of"
    elif differs:
        text = f"{by} is of {' and '.join(differs)}, and says nothing here: repeat it."
        return Notice("refusal", text[:1].upper() + text[1:])
    grades = [(use, *judged[use]) for use in uses if use in judged]
    texts = [
        f"{grade} for {TITLES[use][:1].lower()}{TITLES[use][1:]}{f' ({why})' if grade is Grade.NOT else ''}"
        for use, grade, why in grades
    ]
    is_missed = any(grade is Grade.NOT for _, grade, _ in grades)
    missed = "Simulations miss the site's own past. " if is_missed else ""
    kind = "refusal" if is_missed else "note"
    return Notice(kind, f"{missed}By {by}, simulations are {'; '.join(texts)}.")
