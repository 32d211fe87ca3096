"""Results of a study's cases, kept in a file as they end: who was interrupted goes on from there."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

from sil.experiment.provenance import code_and_data


class KeptResults:
    """A result for each case that has ended, in the file `path` (None: in no file). What other code or other
    data gave is not taken up again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._code = code_and_data().encode()
        self._results = dict(self._read())

    def key(self, case: object) -> str:
        """Equal for equal cases."""
        return hashlib.sha256(self._code + pickle.dumps(case)).hexdigest()

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> Any:
        return self._results[key]

    def keep(self, key: str, result: Any) -> None:
        self._results[key] = result
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(pickle.dumps((key, result)))

    def _read(self) -> list[tuple[str, Any]]:
        """What is whole; a last record that was cut off is cut away, so that others can follow."""
        found: list[tuple[str, Any]] = []
        if self._path is None or not self._path.is_file():
            return found
        with self._path.open("rb+") as file:
            while True:
                whole_until = file.tell()
                try:
                    found.append(pickle.load(file))
                except EOFError:
                    break
                except (pickle.UnpicklingError, AttributeError, ImportError, IndexError, ValueError):
                    break
            file.truncate(whole_until)
        return found
