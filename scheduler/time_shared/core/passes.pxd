cimport cython
from scheduler.time_shared.core.cluster cimport SharedCluster

cdef double inf, TOGETHER_S
cdef long NONE, JUST_FIRST, BEST_FIT, EASY, BY_CPU

@cython.final
cdef class System:
    cdef readonly SharedCluster cluster
    cdef SharedCluster later
    cdef readonly object policy
    cdef readonly long selection
    cdef long node_selection, estimate
    cdef long[::1] waiting, running, chosen, elsewhere
    cdef Py_ssize_t first, end, n_running
    cdef double[::1] left_s
    cpdef bint choose(self, long row) noexcept
    cpdef void start(self, long row) noexcept
    cdef long next_to_start(self) noexcept
    cpdef double reservation_s(self, long head) noexcept
    @cython.locals(may_start=cython.bint)
    cdef void backfill(self) noexcept
    cpdef void start_jobs(self) noexcept
