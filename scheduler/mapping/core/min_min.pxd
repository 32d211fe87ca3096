cimport cython
from scheduler.mapping.core.lines cimport Lines

cdef double inf
cdef long NONE, LAST_INDEX, FEW_LEFT
cdef Py_ssize_t SHORT, DEPTH

@cython.final
cdef class Sorting:
    cdef const double[:, ::1] times_s
    cdef const long[::1] first_of
    cdef Py_ssize_t n
    cdef long[:, ::1] order, bounds
    cdef long[::1] sorted_to, depth
    cdef Py_ssize_t end_of_stretch(self, long k) noexcept
    @cython.locals(order=cython.long[::1], times_s='const double[::1]')
    cdef void sort_on(self, long k) noexcept
    @cython.locals(cut=cython.Py_ssize_t, order=cython.long[::1], times_s='const double[::1]')
    cdef Py_ssize_t split(self, long k, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef bint comes_before(self, const double[::1] times_s, long a, long b) noexcept
    cdef Py_ssize_t end_of_run(self, long k, Py_ssize_t x) noexcept
    cdef Py_ssize_t past_equals(self, long k, Py_ssize_t x) noexcept

@cython.final
cdef class MinMinByClass:
    cdef Lines lines
    cdef Sorting sorting
    cdef long[::1] top, at, in_heaps_to, left, place_of
    cdef long[:, ::1] job
    cdef double[::1] key_s
    cdef Py_ssize_t n_left
    cdef void find_tops(self) noexcept
    cdef void drop_class(self, long c) noexcept
    cdef void set_key(self, long k) noexcept
    cdef void find_top(self, long k) noexcept
    @cython.locals(others=cython.long, by_order=cython.bint, is_tied=cython.bint)
    cdef (long, long) lowest_job(self, double least_s, Py_ssize_t n_offers) noexcept
    cdef long top_of_heap(self, long k) noexcept
    cdef long lowest_of_heap(self, long k, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef long lowest_left(self, long c) noexcept
    cdef void rise(self, long k, Py_ssize_t begin, Py_ssize_t x, long c, long i) noexcept
