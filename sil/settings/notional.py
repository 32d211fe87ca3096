"""Changes of a site that are only imagined, as an experiment or a plan names them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from site_db.site_file.tables import Name, Text
from site_db.toml_file import NotNegative, Positive, Table

VERBS = ("add", "remove", "upgrade", "change")

# Names may have spaces in them.
_ADD = re.compile(r"(?P<count>\d+) x (?P<what>.+?)(?: as cluster (?P<cluster>.+?))?(?: over (?P<line>.+))?")
_SOME = re.compile(r"(?P<count>\d+) x (?P<what>.+)")
_UPGRADE = re.compile(r"(?P<count>\d+) x (?P<what>.+?) to (?P<to>.+)")

MOST_MACHINES = 100_000

NO_TIME_CHANGES = (
    "on dedicated machines no run time depends on memory or the operating system; where these make them "
    "faster, say times_as_fast"
)


class NotionalTable(Table):
    """One change; its verb is one of VERBS.

    * `add = "8 x ultra2-300"`, `"8 x ultra2-300 as cluster new-1 over fast"`: machines of a class, perhaps as
      a cluster. Of a class that the site does not have, one of: `sequential_s` (seconds by job class), `like`
      (a class that the site has) with `times_as_fast`, or `rating` (then the rules of the site's database
      estimate, and how sure they are enters the runs). `uncertainty`: relative standard deviation of what is
      said of a new class. Of a cluster, `bandwidth_mbit_per_s` and `latency_us` of an interconnect that the
      site does not have; `speedup` (of all its machines over one) or `parallel_s`; without
      them, clusters over the same interconnect tell how jobs scale.
    * `remove = "4 x p-133"`, or names of machines or clusters: they go.
    * `upgrade = "8 x p-133 to piii-500"`: machines change their class, and stay in their clusters.
    * `change = "p-133"`: all machines of a class get another `os`, `memory_mb` or `rating`, and are
      `times_as_fast` with that.

    What is added is there from `from_s` to `until_s`; what is removed goes at `from_s`, and comes back at
    `until_s`.
    """

    add: Text | None = None
    remove: Text | None = None
    upgrade: Text | None = None
    change: Text | None = None
    like: Name | None = None
    times_as_fast: Positive = 1.0
    sequential_s: dict[Name, Positive] = Field(default_factory=dict)
    rating: Positive | None = None
    uncertainty: NotNegative = 0.0
    bandwidth_mbit_per_s: Positive | None = None
    latency_us: NotNegative = 0.0
    speedup: Positive | None = None
    parallel_s: dict[Name, Positive] = Field(default_factory=dict)
    os: Text | None = None
    memory_mb: Positive | None = None
    from_s: NotNegative = 0.0
    until_s: Positive | None = None

    @model_validator(mode="after")
    def _means_something(self) -> NotionalTable:
        if len(self.verbs) != 1:
            verbs = " and ".join(self.verbs) or "none"
            raise ValueError(f"a notional change has one of {', '.join(VERBS)}, and this one has {verbs}")
        if self.until_s is not None and self.until_s <= self.from_s:
            raise ValueError(f"'until_s' is {self.until_s:g}; expected more than 'from_s', {self.from_s:g}")
        allowed = _MAY_HAVE[self.verb]
        for key in self.said - {self.verb, "from_s", "until_s"}:
            if key not in allowed:
                raise ValueError(f"'{key}' says nothing where machines {_HAPPENS[self.verb]}; leave it out")
        self.parsed()
        return self

    @property
    def said(self) -> set[str]:
        """The keys that have another value than they would have without."""
        fields = NotionalTable.model_fields.items()
        return {key for key, of in fields if getattr(self, key) != of.get_default(call_default_factory=True)}

    @property
    def verbs(self) -> list[str]:
        return [verb for verb in VERBS if getattr(self, verb) is not None]

    @property
    def verb(self) -> str:
        return self.verbs[0]

    @property
    def scales_times(self) -> bool:
        """Whether it says how fast the machines of a class are with it."""
        return self.verb == "change" and bool(self.said & {"times_as_fast", "uncertainty"})

    @property
    def leaves_times(self) -> bool:
        """Whether it is only about what no run time depends on where machines are dedicated."""
        return self.verb == "change" and not self.scales_times and self.rating is None

    def told(self) -> str:
        """For a reader."""
        return f"{self.verb} {getattr(self, self.verb)}"

    def parsed(self) -> dict[str, Any]:
        """The parts of what stands behind the verb: what, count (None = all), cluster, line, to. Raises
        ValueError where it cannot be read."""
        text = getattr(self, self.verb)
        pattern = {"add": _ADD, "remove": _SOME, "upgrade": _UPGRADE}.get(self.verb)
        match = pattern.fullmatch(text.strip()) if pattern is not None else None
        if match is None:
            if self.verb in ("add", "upgrade"):
                raise ValueError(f"'{text}' is no change that can be made; {_EXPECTED[self.verb]}")
            return {"what": text.strip(), "count": None}
        parts: dict[str, Any] = match.groupdict()
        parts["count"] = int(parts["count"])
        if not 1 <= parts["count"] <= MOST_MACHINES:
            raise ValueError(f"'{text}' names {parts['count']} machines; expected 1 to {MOST_MACHINES:,}")
        return parts


_EXPECTED = {
    "add": "expected something like '8 x ultra2-300', or '8 x ultra2-300 as cluster new-1 over fast'",
    "upgrade": "expected something like '8 x p-133 to piii-500'",
}
_HAPPENS = {"add": "are added", "remove": "are removed", "upgrade": "are upgraded", "change": "are changed"}
_OF_A_CLASS = {"like", "times_as_fast", "sequential_s", "rating", "uncertainty"}
_MAY_HAVE = {
    "add": {*_OF_A_CLASS, "bandwidth_mbit_per_s", "latency_us", "speedup", "parallel_s", "memory_mb", "os"},
    "remove": set(),
    "upgrade": _OF_A_CLASS,
    "change": {"os", "memory_mb", "rating", "times_as_fast", "uncertainty"},
}


def _from_text(value: object) -> object:
    """An addition may be written as its text alone."""
    return {"add": value} if isinstance(value, str) else value


Notional = Annotated[NotionalTable, BeforeValidator(_from_text)]
