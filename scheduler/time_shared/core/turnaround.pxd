cimport cython
from scheduler.time_shared.core.cluster cimport SharedCluster
from scheduler.time_shared.core.passes cimport System

cdef double inf, TOGETHER_S
cdef long BY_HISTORY, EASY

@cython.final
cdef class Forecasts:
    cdef System system
    cdef SharedCluster cluster
    cdef long remaining, cpu
    cdef readonly double[::1] start_s, end_s
    cdef double[::1] known_s, slower, rate
    cdef const double[:, ::1] past_slower
    cdef void update(self, long row, double now_s) noexcept
    @cython.locals(most=cython.long)
    cdef double past_slowdown(self, long row) noexcept
    cdef void estimate(self, long row, double now_s) noexcept
    cdef void estimate_neighbours(self, long row, double now_s) noexcept
    cdef void start_jobs(self, double now_s) noexcept
    cdef void look_ahead(self) noexcept
