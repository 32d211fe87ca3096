"""Print the sizes of the product: `python -m tests.sizes`.

Sizes are for reviewers to read. They are no limits: those shape modules of exactly the permitted size.
"""

from __future__ import annotations

import ast
from collections import Counter
from statistics import median

from tests.test_architecture import PACKAGES, ROOT, all_files, files, nodes

SHOWN = 5


def length(function: ast.FunctionDef) -> int:
    """Return the number of lines of a function, without its signature."""
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1


def n_parameters(function: ast.FunctionDef) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def main() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in all_files()}
    types = [path for package in PACKAGES for path in (ROOT / package).rglob("*.pxd")]
    for package in PACKAGES:
        of_package = [lines[path] for path in files(package)]
        print(f"{package:10} {sum(of_package):7,} lines in {len(of_package):4} modules")
    n_lines = sum(len(path.read_text().splitlines()) for path in types)
    print(f"{'.pxd':10} {n_lines:7,} lines in {len(types):4} files")
    middle = median(lines.values())
    print(f"{'all':10} {sum(lines.values()):7,} lines in {len(lines):4} modules, median {middle:g}")
    functions = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node
        for path in lines
        if "core" not in path.parts
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
    }
    show("longest modules", Counter({str(path.relative_to(ROOT)): n for path, n in lines.items()}))
    show("fullest folders", Counter(str(path.parent.relative_to(ROOT)) for path in lines))
    show("longest functions", Counter({name: length(node) for name, node in functions.items()}))
    show("most parameters", Counter({name: n_parameters(node) for name, node in functions.items()}))


def show(what: str, sizes: Counter[str]) -> None:
    print(what + ": " + "; ".join(f"{name} {n}" for name, n in sizes.most_common(SHOWN)))


if __name__ == "__main__":
    main()
