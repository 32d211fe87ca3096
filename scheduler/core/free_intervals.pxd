cdef long AFTER_ALL

cdef class FreeIntervals:
    cdef readonly Py_ssize_t n, at
    cdef readonly long[::1] bounds
    cdef readonly long node
    cdef Py_ssize_t row_of(self, long node) noexcept
    cdef void toggle(self, long first, long last) except *
    cpdef bint is_free(self, long first, long last)
    cdef void begin_handing_out(self) noexcept
    cdef Py_ssize_t lowest(self, long n_nodes, long[:, ::1] intervals, Py_ssize_t n) noexcept
    cdef void take_before(self) noexcept
