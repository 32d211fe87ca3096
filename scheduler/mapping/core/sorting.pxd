cimport cython
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
