cimport cython
from scheduler.mapping.core.lines cimport Lines
from scheduler.mapping.core.sorting cimport Sorting

cdef double inf
cdef long NONE, LAST_INDEX, FEW_LEFT

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
