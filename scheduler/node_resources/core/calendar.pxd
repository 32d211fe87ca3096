cimport cython

cdef double inf
cdef long NONE, ONE
cdef Py_ssize_t MAX_RESERVATIONS

@cython.final
cdef class Calendar:
    cdef readonly Py_ssize_t n_nodes, n
    cdef readonly long version, reserved_since
    cdef readonly unsigned char[::1] up
    cdef readonly unsigned char[:, ::1] has
    cdef readonly double[::1] start_s, end_s
    cdef readonly long[::1] serial, own
    cdef readonly dict class_of, names
    cpdef void set_up(self, Py_ssize_t n, bint is_up) noexcept
    cpdef void forget_past(self, double now_s) noexcept
    @cython.locals(next_s=double)
    cpdef double next_s(self, double now_s) noexcept
    cpdef long in_the_way(self, long own, Py_ssize_t n, double from_s, double until_s) noexcept
    cpdef bint has_in_the_way(self, long own, double from_s, double until_s) noexcept
