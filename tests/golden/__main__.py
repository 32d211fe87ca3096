"""Write, compare or show the frozen behaviour of the product."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.golden.cases import cases
from tests.golden.hashes import Content, differences
from tests.golden.inputs import write_inputs
from tests.golden.running import Case, carry_out, load, results

HERE = Path(__file__).parent
MADE_WITH = {
    "python": platform.python_version(),
    **{name: version(name) for name in ("numpy", "polars", "click")},
}


def stored(group: str) -> dict[str, Content]:
    path = HERE / f"{group}.json"
    found: dict[str, Content] = json.loads(path.read_text()) if path.exists() else {}
    return found


def store(group: str, found: dict[str, Content]) -> None:
    """One line for each file of a case."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(found[name], separators=(',', ':'))}" for name in sorted(found)
    ]
    (HERE / f"{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _of_case(found: dict[str, Content], case: Case) -> dict[str, Content]:
    return {name: content for name, content in found.items() if name.startswith(f"{case.name}/")}


def freeze(chosen: list[Case], root: Path, n_processes: int, writing: bool) -> int:
    """Print the differences from what is stored, which is replaced if `writing`, and return their number."""
    inputs = write_inputs(root / "in")
    skipped = {case: why for case in chosen if (why := case.lacks(inputs))}
    for case, why in skipped.items():
        print(f"skipped {case.group}/{case.name}: {why}")
    load()
    now: dict[str, dict[str, Content]] = {group: {} for group in dict.fromkeys(case.group for case in chosen)}
    n_different = 0

    def note(line: str) -> None:
        nonlocal n_different
        n_different += 1
        print(line, flush=True)

    for case, found in results([case for case in chosen if case not in skipped], root, inputs, n_processes):
        named = {f"{case.name}/{file}": content for file, content in found.items()}
        now[case.group].update(named)
        for line in differences(_of_case(stored(case.group), case), named):
            note(f"{case.group}  {line}")
    for group, found in now.items():
        before, names = stored(group), {case.name for case in chosen if case.group == group}
        for name in before:
            if name.split("/")[0] not in {*names, "made"}:
                note(f"{group}  {name}: there is no such case")
        if writing:
            kept = [_of_case(before, case) for case in skipped if case.group == group]
            store(group, {"made/with": MADE_WITH, **found, **{k: v for old in kept for k, v in old.items()}})
    return n_different


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden",
        description=sys.modules["tests.golden"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["write", "compare", "show"])
    parser.add_argument("names", nargs="*", help="groups, all by default; for show: GROUP/CASE and a folder")
    parser.add_argument("--keep", type=Path, help="keep the raw outputs in this folder")
    parser.add_argument("--processes", type=int, default=2, help="how many cases at a time (default: 2)")
    given = parser.parse_args(arguments)
    every = cases()
    if given.action == "show":
        named = {f"{case.group}/{case.name}": case for case in every}
        if len(given.names) != 2 or given.names[0] not in named:
            parser.error("expected GROUP/CASE and a folder; the cases are " + ", ".join(named))
        case, folder = named[given.names[0]], Path(given.names[1]).resolve()
        carry_out(case, folder, write_inputs(folder / ".inputs"))
        return 0
    chosen = [case for case in every if not given.names or case.group in given.names]
    # No TemporaryDirectory: forked processes would remove it when they end.
    root = (given.keep or Path(tempfile.mkdtemp(prefix="golden-"))).resolve()
    try:
        n_different = freeze(chosen, root, given.processes, given.action == "write")
    finally:
        if not given.keep:
            shutil.rmtree(root)
    print(f"{len(chosen)} cases, {n_different} differences")
    return int(n_different > 0 and given.action == "compare")


if __name__ == "__main__":
    sys.exit(main())
