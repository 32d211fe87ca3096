cimport cython
from scheduler.core.profile cimport Profile
from scheduler.core.releases cimport Releases
from scheduler.core.waiting_tree cimport WaitingTree
from scheduler.core.starting cimport Starting

cdef double inf

@cython.final
cdef class Reservations:
    cdef readonly Py_ssize_t n, n_waiting
    cdef readonly long[::1] jobs
    cdef readonly double[::1] start_s, new_start_s
    cdef bint is_settled
    cdef Profile last_profile, last_runs, profile, peaks, runs
    cdef long[::1] place, size, job, by_start, by_end, scratch
    cdef double[::1] takes_s, end_s
    cdef void make_room(self, Py_ssize_t n) except *
    cpdef double first_reserved_s(self)
    cdef Py_ssize_t carry_over(self, Py_ssize_t n) noexcept
    cdef Py_ssize_t read_waiting(self, WaitingTree tree) except -1
    cdef bint keep_all(self, Py_ssize_t n, Releases releases, long n_free, double now_s, double soon_s) noexcept
    cdef void keep_or_move(self, Py_ssize_t n, Releases releases, long n_free, double now_s, double soon_s) except *
    @cython.locals(is_kept=cython.bint)
    cdef void write_profile(self, Py_ssize_t n, Py_ssize_t n_found, Releases releases, long n_free, double now_s, double soon_s) except *
    @cython.locals(soon_s=cython.double)
    cdef void reserve(self, WaitingTree tree, Releases releases, long n_free, double now_s, Starting starting) except *

cdef void sort_stable(double[::1] keys, long[::1] order, long[::1] scratch, Py_ssize_t n) noexcept
