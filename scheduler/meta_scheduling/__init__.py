"""A meta-scheduler over several clusters, each of which keeps its own scheduler."""
