"""The pass over the queue as Python calls it, which the compiled engine does without."""

from __future__ import annotations

from scheduler.compiled import called_from_python
from scheduler.node_resources.kernels.backfilling import begin_pass, one_pass

begin_new_pass = called_from_python(begin_pass)
go_on = called_from_python(one_pass)
