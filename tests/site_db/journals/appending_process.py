"""A process that forks others, which append to a journal until they are killed.

For each line on its standard input, kind and place of a journal, it forks one, which prints its process id,
then the number of each entry that is durable; when it has ended, the first one prints "ended".
"""

from __future__ import annotations

import os
import sys
from itertools import count

from tests.site_db.journals.places import entry, opened


def say(word: object) -> None:
    os.write(1, f"{word}\n".encode())


def append(kind: str, place: str) -> None:
    say(os.getpid())
    journal = opened(kind, place)
    for n in count(sum(1 for _ in journal.entries())):
        journal.append(entry(n))
        say(n)


def main() -> None:
    say("ready")
    for line in sys.stdin:
        process = os.fork()
        if not process:
            append(*line.split())
        os.waitpid(process, 0)
        say("ended")


if __name__ == "__main__":
    main()
