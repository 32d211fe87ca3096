"""Simulated time."""


class SimClock:
    """The clock of a simulated site: `now_s` seconds since the start of the experiment.

    Whoever takes events from their queue sets it; the queue sees to it that time never goes back.
    """

    __slots__ = ("now_s",)

    def __init__(self) -> None:
        self.now_s = 0.0
