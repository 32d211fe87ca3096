cimport cython
from scheduler.node_resources.core.calendar cimport Calendar
from scheduler.node_resources.core.on_nodes cimport Held, OnNodes, StartRule
from scheduler.node_resources.core.placement cimport Ranking, Rows
from scheduler.node_resources.core.state cimport NodeState

cdef double inf
cdef long NONE, WHOLE, ONE
cdef Py_ssize_t FREE, MAX_DELAYING
cdef int SJF, EDF, NO_BACKFILLING, SHORTEST_FIRST

@cython.final
cdef class Shadow:
    cdef NodeState nodes, then
    cdef unsigned char[::1] is_copied, shut
    cdef Calendar calendar
    cdef long[::1] copied, fit
    cdef Py_ssize_t n_copied, kind
    cdef long total, chunks
    cdef void look_at(self, Py_ssize_t kind, long chunks) except *
    cdef void copy_row(self, Py_ssize_t n) noexcept
    cdef void shift(self, Py_ssize_t kind, Py_ssize_t n, long chunks, long gpus, long sign) noexcept
    cdef void count(self, Py_ssize_t n) noexcept
    @cython.locals(is_shut=cython.bint)
    cdef void pass_time(self, double then_s, double takes_s) noexcept
    cdef void shift_run(self, Held held, long first, long sign) noexcept
    cdef void shift_held(self, Held held, long first, long kind, long sign) noexcept
    cdef void shift_stopped(self, Held held, long first, long kept, long sign) noexcept
    cdef void shift_rows(self, Py_ssize_t kind, Rows rows, Py_ssize_t begin, Py_ssize_t after, long sign) noexcept
    @cython.locals(has_room=cython.bint)
    cdef bint first_fits(self) noexcept
    cdef bint would_delay(self, Py_ssize_t kind, Rows rows, Py_ssize_t begin, Py_ssize_t after) noexcept
    cpdef bint runs_to_stop(self, Held held, long[::1] firsts, long[::1] kept, Py_ssize_t kind, long chunks, unsigned char[::1] stopped) except -1

@cython.final
cdef class EasyRule(StartRule):
    cdef OnNodes queue
    cdef Ranking ranking
    cdef Shadow shadow
    cdef readonly double reserved_s
    cdef unsigned char[::1] is_out
    cdef long[::1] by_end
    cdef Py_ssize_t n_delaying
    cdef long[::1] delaying_kind, delaying_chunks
    cdef void begin(self) except *
    cdef Py_ssize_t end(self) noexcept
    @cython.locals(is_within=cython.bint)
    cdef bint take(self, Py_ssize_t slot, bint is_backfilling, double now_s) except -1
    cdef bint first_fits_from(self, Py_ssize_t slot, double then_s) noexcept
    cdef void place(self, Py_ssize_t slot) noexcept
    cdef void note_end(self, Py_ssize_t x) noexcept
    cdef double reserve(self, Py_ssize_t slot, double now_s) except -1.0
    cdef bint is_known_to_delay(self, long kind, long chunks) noexcept
    @cython.locals(ends_in_time=cython.bint, elsewhere=cython.bint)
    cdef void backfill(self, long[::1] later, double now_s) except *
