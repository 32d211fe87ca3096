cimport cython
cdef long AFTER_ALL

@cython.final
cdef class FreeIntervals:
    cdef readonly long n, n_nodes
    cdef readonly Py_ssize_t n_bounds
    cdef readonly long[::1] bounds
    cdef Py_ssize_t row_of(self, long node) noexcept
    @cython.locals(is_taken=cython.bint)
    cdef void toggle(self, long first, long last) except *
    cpdef bint is_free(self, long first, long last)
    cdef void take_before(self, InOrder cursor) noexcept

@cython.final
cdef class InOrder:
    cdef FreeIntervals free
    cdef Py_ssize_t at
    cdef long node, left
    cdef void begin(self) noexcept
    cdef Py_ssize_t hand_out(self, long n_nodes, long[:, ::1] intervals, Py_ssize_t row) noexcept
