cimport cython
from scheduler.core.heap cimport Heap
from scheduler.node_resources.core.calendar cimport Calendar
from scheduler.node_resources.core.on_nodes cimport Held, OnNodes, StartRule
from scheduler.node_resources.core.placement cimport Ranking, Rows
from scheduler.node_resources.core.search cimport Search
from scheduler.node_resources.core.state cimport NodeState
from scheduler.node_resources.core.timeline cimport Timeline

cdef double inf
cdef long NONE, ONE
cdef Py_ssize_t MAX_ALIKE
cdef int GPU_CLUSTERING, IN_PYTHON

@cython.final
cdef class Freed:
    cdef Py_ssize_t n
    cdef long[::1] which
    cdef double[::1] from_s, until_s
    cdef bint has(self, long place) noexcept
    cdef void add(self, long place, double from_s, double until_s) noexcept
    cdef void forget(self) noexcept

@cython.final
cdef class ReservingRule(StartRule):
    cdef OnNodes queue
    cdef Ranking ranking
    cdef NodeState nodes
    cdef Timeline timeline
    cdef Search search
    cdef Freed freed, moved
    cdef readonly double first_reserved_s
    cdef readonly double[::1] start_s
    cdef long[::1] first_use, most, reserved, ticket, started
    cdef unsigned char[::1] waits
    cdef Py_ssize_t n_reserved, n_started, n_runs
    cdef Calendar calendar
    cdef long calendar_version
    cdef unsigned char[::1] was_up
    cdef long[::1] entered
    cdef bint all_stay
    cdef Heap kept
    cdef Py_ssize_t n_alike
    cdef long[:, ::1] alike_request
    cdef double[:, ::1] alike_s
    cdef long n_passes
    cdef double slot_s, margin_s
    cdef long whole, all_gpus
    cdef long[::1] runs, run_of, use_of, seen
    cdef void make_room(self) except *
    cdef void follow_calendar(self) except *
    cdef void note_freed(self, Freed freed, long first, double now_s) noexcept
    cdef void note_freed_between(self, long first, double from_s, double until_s) noexcept
    cdef void leave(self, long first, double now_s) noexcept
    cdef bint is_where_freed(self, long first) noexcept
    cdef bint holds_the_same(self, long first, long row, double end_s) noexcept
    cdef void note_run(self, long row, long run, long first) noexcept
    cdef long uses_of_run(self, long row) except -2
    @cython.locals(soon_s=double, is_known=cython.bint)
    cdef void follow_runs(self, double now_s) except *
    cdef void begin_run(self, Py_ssize_t x, double end_s) except *
    cdef void begin(self, double now_s) except *
    cdef (double, double) gains_s(self, Py_ssize_t k, long lacking, double now_s, double takes_s, double before_s) noexcept
    cdef double look_for_start_s(self, Py_ssize_t slot, double from_s, double before_s, double now_s) noexcept
    @cython.locals(found_s=double, is_alike=cython.bint)
    cdef double not_before_others_s(self, long k, long chunks, double takes_s, double now_s) noexcept
    cdef void note_alike(self, long k, long chunks, double takes_s, double start_s) noexcept
    cdef void keep(self, Py_ssize_t begins, Py_ssize_t after, double now_s) except *
    cdef double new_start_s(self, Py_ssize_t slot, double before_s, double now_s) noexcept
    cdef double earlier_start_s(self, Py_ssize_t slot, double now_s) except *
    cdef bint choose(self, Py_ssize_t slot, double start_s, double end_s) except -1
    cdef long use_rows(self, long kind, Py_ssize_t begin, Py_ssize_t after) except -2
    cdef bint reserve(self, Py_ssize_t slot, double start_s) except -1
    cdef void hold(self, long first) except *
    cdef void add_reserved(self, Py_ssize_t slot) except *
    cdef bint keeps_limits(self, Py_ssize_t slot) except -1
    cdef void start_due(self, double now_s) except *
