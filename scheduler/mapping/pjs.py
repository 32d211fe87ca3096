"""The parallel job scheduler of Collins and George: SJS with cluster extensions."""

from __future__ import annotations

from scheduler.mapping.by_class import ByClass
from scheduler.mapping.cluster_trials import ClusterTrials
from scheduler.mapping.greedy import Greedy
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Pjs:
    """PJS: SJS, with the most profitable jobs in parallel on whole clusters.

    1. SJS alone is the baseline.
    2. The profitability of (job, cluster) is the job's best sequential completion, min_j(ready + ETC), less
       its completion on the cluster, cluster ready + parallel time. Ready times count what was ready before
       and the parallel jobs committed so far. Only positive profitability counts.
    3. The most profitable pair is committed: its cluster, which is ready when all members are, is in use for
       the expected duration, and sequential jobs go only after it on its members.
    4. SJS schedules the other jobs around it. If the sum of expected job times improved strictly, go on from
       2, else stop with the best schedule so far.

    By that sum it is never worse than SJS on one problem. A job that no single machine can run is infinitely
    profitable, and a schedule that runs more jobs is better than any that runs fewer. Ties go to the lowest
    job index, then the lowest cluster index. Costs as SJS, and for each trial one more Min-min, for which
    nothing has to be sorted again. Source: Collins and George 2001, section 3, steps 1 to 5.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        trials = ClusterTrials(by_class, problem.ready_times.members, Greedy(by_class).duplex)
        while (pair := trials.most_profitable()) and trials.accepts(pair):
            pass
        return mapped(problem, trials.best)


class PjsTryNext:
    """PJS that tries the next most profitable pair after a failed trial.

    Until none is left: a pair that failed is tried again only after another one was committed. What it
    commits begins as PJS does and goes further, so by the sum of expected job times it is never worse.
    Ties as in PJS. There are at most (job classes) x (clusters) trials for each that is committed.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        trials = ClusterTrials(by_class, problem.ready_times.members, Greedy(by_class).duplex)
        while pair := trials.most_profitable():
            if not trials.accepts(pair):
                trials.pass_over(pair)
        return mapped(problem, trials.best)
