"""Notional changes of a site, as in an experiment or a plan file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from site_db.files.fields import Amounts, Name, Text, WholeNumber, Words
from site_db.files.input_errors import quoted
from site_db.files.toml_file import NotNegative, Positive, Table

VERBS = ("add", "remove", "upgrade", "change")

# Names may have spaces in them.
_LONGEST = 500
"""The longest change, in characters: the time to match it grows with their cube."""
_SOME = r"(?P<count>\d+) x (?P<what>.+?)"
_PATTERNS = {
    "add": re.compile(rf"{_SOME}(?: as cluster (?P<cluster>.+?))?(?: over (?P<interconnect>.+))?"),
    "remove": re.compile(_SOME),
    "upgrade": re.compile(rf"{_SOME} to (?P<to>.+)"),
}
MAX_MACHINES = 100_000

NO_TIME_CHANGES = (
    "on dedicated machines no run time depends on memory or the operating system; where these make them "
    "faster, give times_as_fast"
)


@dataclass(frozen=True)
class ParsedChange:
    """`what` is a class, a cluster or machines; without a count, all of them."""

    what: str
    count: int | None = None
    cluster: str | None = None
    interconnect: str | None = None
    to: str = ""


class NotionalTable(Table):
    """One change; its verb is one of VERBS.

    * `add = "8 x ultra2-300"`, `"8 x ultra2-300 as cluster new-1 over fast"`: machines of a class, perhaps as
      a cluster. Of a class that the site does not have, one of: `sequential_s` (seconds by job class), `like`
      (a class that the site has) with `times_as_fast`, or `rating` (then the rules of the site's database
      estimate, and their uncertainty enters the runs). `uncertainty`: relative standard deviation of the
      times given for a new class. `slots`: those of each machine, by default those of its class. Of a
      cluster, `bandwidth_mbit_per_s` and `latency_us` of an interconnect that the site does not have;
      `speedup` (of all its machines over one) or `parallel_s`; without them, jobs scale as on clusters over
      the same interconnect.
    * `remove = "4 x p-133"`, or names of machines or clusters: they are removed.
    * `upgrade = "8 x p-133 to piii-500"`: machines change their class, and stay in their clusters.
    * `change = "p-133"`: all machines of a class get another `os`, `memory_mb` or `rating`, and are
      `times_as_fast` with that.

    On nodes of partitions, `add` and `upgrade` to a new class need no speed: `processors`, `memory_mb`,
    `threads_per_core`, `gpus` by type, `resources` and `features` say what its nodes have; those of a known
    class have what its machines have. Added nodes are in `partitions`, by default those of the machines of
    their class, if these are all in the same ones, and on the leaf switch of the last machine of their
    class, else of the site. `change` gives all nodes of a class other amounts, or
    `more_memory_mb`.

    Added machines are present from `from_s` to `until_s`; removed ones are absent from `from_s` to `until_s`.
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
    slots: WholeNumber | None = None
    os: Text | None = None
    memory_mb: Positive | None = None
    more_memory_mb: Positive | None = None
    processors: WholeNumber | None = None
    threads_per_core: WholeNumber | None = None
    gpus: Amounts = Field(default_factory=dict)
    resources: Amounts = Field(default_factory=dict)
    features: Words = ()
    partitions: Words = ()
    from_s: NotNegative = 0.0
    until_s: Positive | None = None

    @field_validator("gpus", mode="before", json_schema_input_type=Amounts)
    @classmethod
    def _is_by_type(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            raise ValueError(f"gpus is {value!r}; expected the number of each type, as {{ h100 = 4 }}")
        return value

    @model_validator(mode="after")
    def _is_a_change(self) -> NotionalTable:
        verbs = [verb for verb in VERBS if getattr(self, verb) is not None]
        if len(verbs) != 1:
            given = " and ".join(verbs) or "none"
            raise ValueError(f"a notional change has one of {', '.join(VERBS)}, and this one has {given}")
        if self.until_s is not None and self.until_s <= self.from_s:
            raise ValueError(f"'until_s' is {self.until_s:g}; expected more than 'from_s', {self.from_s:g}")
        for key in self.given - {self.verb, "from_s", "until_s"} - _KEYS[self.verb]:
            raise ValueError(no_effect(key, self.verb))
        if self.memory_mb is not None and self.more_memory_mb is not None:
            raise ValueError("a change has either memory_mb or more_memory_mb, and this one has both")
        self.parsed()
        return self

    @property
    def given(self) -> set[str]:
        """The keys whose values are not the default."""
        fields = NotionalTable.model_fields.items()
        return {key for key, of in fields if getattr(self, key) != of.get_default(call_default_factory=True)}

    @property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def scales_times(self) -> bool:
        """Whether it changes how fast all machines of a class are."""
        return self.verb == "change" and bool(self.given & {"times_as_fast", "uncertainty"})

    @property
    def leaves_times(self) -> bool:
        """Whether it changes only what no run time on dedicated machines depends on."""
        return self.verb == "change" and not self.scales_times and self.rating is None

    @property
    def text(self) -> str:
        """The change for a reader."""
        return f"{self.verb} {getattr(self, self.verb)}"

    def parsed(self) -> ParsedChange:
        """The text after the verb in parts. Raises ValueError if it cannot be parsed."""
        text = getattr(self, self.verb)
        pattern = _PATTERNS.get(self.verb)
        match = pattern.fullmatch(text.strip()) if pattern is not None and len(text) <= _LONGEST else None
        if match is None:
            if self.verb in _EXPECTED:
                raise ValueError(f"{quoted(text)} is not a valid change; {_EXPECTED[self.verb]}")
            return ParsedChange(text.strip())
        parts: dict[str, Any] = match.groupdict()
        count = int(parts.pop("count"))
        if not 1 <= count <= MAX_MACHINES:
            raise ValueError(f"'{text}' names {count} machines; expected 1 to {MAX_MACHINES:,}")
        return ParsedChange(count=count, **parts)


_EXPECTED = {
    "add": "expected something like '8 x ultra2-300', or '8 x ultra2-300 as cluster new-1 over fast'; "
    'nodes of a new class are a table: { add = "10 x h100-node", processors = 64, memory_mb = 512_000, '
    'gpus = { h100 = 4 }, partitions = ["gpu"] }',
    "upgrade": "expected something like '8 x p-133 to piii-500'",
}
OF_CLUSTERS = {"bandwidth_mbit_per_s", "latency_us", "speedup", "parallel_s"}
"""Keys that apply only to clusters of machines."""
SPECIFICATION = ("processors", "threads_per_core", "memory_mb", "gpus", "resources", "features")
"""Keys that describe a node of partitions."""
OF_NODES = {*SPECIFICATION, "more_memory_mb", "partitions"} - {"memory_mb"}
"""Keys that apply only to nodes of partitions."""
_OF_A_CLASS = {"like", "times_as_fast", "sequential_s", "rating", "uncertainty"}
_KEYS = {
    "add": {*_OF_A_CLASS, *OF_CLUSTERS, *SPECIFICATION, "partitions", "slots", "os"},
    "remove": set(),
    "upgrade": {*_OF_A_CLASS, *SPECIFICATION},
    "change": {*SPECIFICATION, "more_memory_mb", "os", "rating", "times_as_fast", "uncertainty"},
}


def no_effect(key: str, verb: str) -> str:
    return f"'{key}' has no effect when machines are {verb.rstrip('e')}ed; leave it out"


Notional = Annotated[
    NotionalTable,
    BeforeValidator(
        lambda value: {"add": value} if isinstance(value, str) else value,
        json_schema_input_type=NotionalTable | str,
    ),
]
"""An addition may be written as its text alone."""
