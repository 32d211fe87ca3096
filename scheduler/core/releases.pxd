cimport cython
cdef long AFTER_ALL

@cython.final
cdef class Releases:
    cdef readonly Py_ssize_t n
    cdef readonly double[::1] end_s
    cdef readonly long[::1] released, run, slot
    cdef Py_ssize_t row_of(self, double end_s, long run) noexcept
    cdef void insert(self, double end_s, long released, long run, long slot) except *
    cdef void remove(self, double end_s, long run) noexcept
    cdef void expect(self, double end_s, long released) except *
    cdef void forget(self, double end_s) noexcept
