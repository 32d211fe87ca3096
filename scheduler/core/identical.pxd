cimport cython
from scheduler.core.free_intervals cimport FreeIntervals, InOrder
from scheduler.core.queue cimport Queue
from scheduler.core.reservations cimport Reservations
from scheduler.core.starting cimport Starting
from scheduler.core.waiting_tree cimport WaitingTree

cdef double inf
cdef Py_ssize_t NONE
cdef int SJF, EDF, NO_BACKFILLING, IN_ORDER, CONSERVATIVE

@cython.final
cdef class IdenticalNodes(Queue):
    cdef readonly FreeIntervals free
    cdef InOrder cursor
    cdef readonly WaitingTree tree
    cdef readonly Starting starting
    cdef public Reservations reservations
    cdef readonly long[::1] size, place, first_interval, n_intervals
    cdef readonly Py_ssize_t n_held, n_down
    cdef readonly long[:, ::1] intervals
    cdef long[::1] down, is_taken
    cdef double last_s
    cdef long last_job
    cdef void sort_waiting(self) except *
    cdef void make_room_for_intervals(self, Py_ssize_t more) except *
    cdef void turn_nodes(self, Py_ssize_t slot) except *
    cdef void take_nodes_down(self) except *
    cpdef void set_available(self, long node, bint is_available) except *
    @cython.locals(size=cython.long)
    cdef long start_one(self, Py_ssize_t place) except -1
    cdef Py_ssize_t first_in_queue(self, int ordering) except -2
    cdef void put_back(self) noexcept
    cdef (double, long) reservation(self, long n_free, long needed, double now_s) noexcept
    @cython.locals(is_late=cython.bint)
    cdef void one_pass(self, int ordering, int backfilling, double now_s) except *
    cdef Py_ssize_t decide_by(self, int ordering, int backfilling, double now_s) except -1
    cdef void choose_nodes(self, Py_ssize_t n_started) except *
    cdef void begin_on(self, Py_ssize_t slot, Py_ssize_t n_intervals, double now_s, double end_s) except *
    cpdef Py_ssize_t slot_at(self, Py_ssize_t rank)
    cpdef double estimate_of(self, Py_ssize_t slot)
