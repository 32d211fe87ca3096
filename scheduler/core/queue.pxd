from scheduler.core.releases cimport Releases

cdef double inf, SHORTEST_S
cdef Py_ssize_t NONE
cdef int EDF

cdef class Queue:
    cdef public int ordering, backfilling
    cdef public bint always_called
    cdef public long next_run
    cdef public Py_ssize_t n_waiting
    cdef public bint wants_round
    cdef public double asks_again_s
    cdef readonly Releases releases
    cdef readonly Py_ssize_t n_slots
    cdef readonly long[::1] started, job, run, spare
    cdef readonly double[::1] began_s, end_s, due_s, latest_s
    cdef public double next_due_s
    cdef readonly unsigned char[::1] holds
    cdef readonly Py_ssize_t n_spare, n_used
    cdef void make_room(self, Py_ssize_t n_slots) except *
    cpdef double[::1] urgency(self, int ordering)
    cpdef bint nothing_fits(self)
    cdef void wait(self, Py_ssize_t slot, long size, long kind, double estimate_s) except *
    cdef void leave(self, Py_ssize_t slot) except *
    cpdef void withdraw(self, Py_ssize_t slot) except *
    cdef void free_slot(self, Py_ssize_t slot) noexcept
    cdef void give_nodes_back(self, Py_ssize_t slot) except *
    cdef Py_ssize_t decide(self, double now_s) except -1
    cdef void start(self, Py_ssize_t n_started, double now_s) except *
    cdef void something_changed(self) noexcept
    cdef double wakes_at_s(self) noexcept
    cpdef Py_ssize_t arrived(self, long job, long size, long kind, double estimate_s, double since_s) except -1
    cdef void begin(self, Py_ssize_t slot, long released, double now_s, double end_s) except *
    cdef void give_back(self, Py_ssize_t slot) except *
    cpdef void ended(self, Py_ssize_t slot, double now_s) except *
    cpdef void released(self, Py_ssize_t slot, double now_s) except *
    cpdef Py_ssize_t overdue(self, double now_s)
    cpdef void extend_estimate(self, double takes_s, double now_s) except *
    cpdef void expect_end(self, Py_ssize_t slot, long released, double end_s) except *
    cpdef void pause(self, Py_ssize_t slot, double for_s) noexcept
    cpdef bint is_holding(self, Py_ssize_t slot)
    cpdef bint is_due(self, Py_ssize_t slot, double now_s)
    cpdef double began_at_s(self, Py_ssize_t slot)
    cpdef long run_of(self, Py_ssize_t slot)
    cdef void time_passed(self, double now_s) noexcept
