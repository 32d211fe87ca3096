"""Small inputs of the cases: generated with a fixed seed, or written down here."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

from tests.oracles import FOLDER

BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z


def _swf(random_: random.Random, n: int) -> str:
    """Rigid jobs on 64 processors, of which some need repairs."""
    lines, at = ["; MaxProcs: 64", f"; UnixStartTime: {BEGIN}"], 0
    for job in range(1, n + 1):
        at += int(random_.expovariate(1 / 240))
        run, size = 1 + int(random_.expovariate(1 / 2000)), min(64, 2 ** random_.randrange(7))
        limit = random_.choice(
            [run + random_.randrange(4000), 3600 * random_.randrange(1, 5), -1 if job % 40 == 0 else 7200]
        )
        size = 80 if job % 97 == 0 else size
        user = random_.randrange(1, 9)
        lines.append(f"{job} {at} -1 {run} {size} -1 -1 {size} {limit} -1 1 {user} 1 {user} 1 1 -1 -1")
    return "\n".join(lines) + "\n"


def _accounting(random_: random.Random, n: int) -> str:
    rows, at = [], BEGIN
    for job in range(n):
        at += int(random_.expovariate(1 / 150))
        run, user = 30 + int(random_.expovariate(1 / 3000)), random_.choice("abcde")
        partition = random_.choice(["cpu", "cpu", "gpu", "all", "cpu,all"])
        nodes, cpus = random_.choice([1, 1, 1, 2]), random_.choice([1, 2, 4, 8, 16])
        gpus = nodes * random_.choice([0, 1, 2]) if partition == "gpu" else 0
        tres = f"cpu={nodes * cpus},mem={nodes * cpus * 3}G,node={nodes}"
        tres += f",gres/gpu={gpus}" if gpus else ""
        start = at + random_.randrange(600)
        row = {
            "JobID": f"{100 + job // 5}_{job % 5}" if job % 50 < 10 else 1000 + job,
            "User": f"u{user}",
            "Account": f"a{user > 'c'}",
            "QOS": "normal",
            "JobName": f"program{job % 7}",
            "Partition": partition,
            "Submit": at,
            "Eligible": at,
            "Start": start,
            "End": start + run,
            "ElapsedRaw": run,
            "Suspended": 0,
            "State": random_.choices(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1"], [90, 5, 3, 2])[0],
            "TimelimitRaw": run // 60 + random_.randrange(1, 90),
            "Constraints": random_.choice(["", "old"]) if partition == "cpu" else "",
            "ReqTRES": tres,
            "AllocTRES": tres,
            "NodeList": "g01" if partition == "gpu" else "n01",
        }
        rows.append("|".join(map(str, row.values())))
    return "\n".join(["|".join(row), *rows]) + "\n"


def write_inputs(folder: Path) -> Path:
    """The folder, with all inputs; the logs of the archive are linked, where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    random_ = random.Random(20260101)
    matrix = [",".join(str(random_.randrange(5, 300)) for _ in range(6)) for _ in range(20)]
    texts: dict[str, str] = {
        **tomllib.loads(Path(__file__).with_suffix(".toml").read_text()),
        "small.swf": _swf(random_, 400),
        "sacct.txt": _accounting(random_, 300),
        "matrix.csv": "\n".join(matrix) + "\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        if not (folder / name).exists():  # another process may be reading it
            (folder / name).write_text(text)
    for log in (FOLDER / "swf").glob("*.swf.gz"):
        if not (folder / log.name).exists():
            (folder / log.name).symlink_to(log.resolve())
    return folder
