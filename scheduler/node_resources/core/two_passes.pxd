cimport cython
from scheduler.node_resources.core.easy cimport EasyRule
from scheduler.node_resources.core.on_nodes cimport OnNodes, StartRule
from scheduler.node_resources.core.placement cimport Rows
from scheduler.node_resources.core.reserving cimport ReservingRule
from scheduler.node_resources.core.state cimport Kinds
from scheduler.node_resources.core.timeline cimport Timeline

cdef double inf
cdef long NONE, WHOLE
cdef Py_ssize_t RESERVED

@cython.final
cdef class TwoPassRule(StartRule):
    cdef EasyRule main
    cdef ReservingRule plan
    cdef OnNodes queue
    cdef Kinds kinds
    cdef long depth, most_tested, most_started
    cdef double full_interval_s, interval_s, window_s, min_age_s, full_s, cycle_s
    cdef bint plans_all
    cdef long[::1] most, keys
    cdef long[:, ::1] counts
    cdef unsigned char[::1] stopped
    cdef long[::1] order, choice
    cdef long n
    @cython.locals(slot=long, choice=long)
    cdef void line_up(self) except *
    cdef long slot_at(self, long x) noexcept
    cdef bint reserve(self, long slot, double start_s) except -1
    cdef void start_in_order(self, long depth, double now_s) except *
    cdef long last_that_fits(self, long x) noexcept
    cdef bint is_full(self, Py_ssize_t limit) except -1
    cdef void count(self, Py_ssize_t limit) noexcept
    cdef bint is_left_out(self, long slot) except -1
    cdef void backfill(self, double now_s) except *
    cdef void hold(self, long slot, Py_ssize_t begin, Py_ssize_t after, double now_s) except *
    @cython.locals(before_s=double, until_s=double)
    cdef bint starts(self, long slot, double now_s) except -1
