cimport cython

@cython.final
cdef class Heap:
    cdef readonly Py_ssize_t n
    cdef readonly long[::1] items
    cdef long[::1] ties
    cdef readonly double[::1] keys
    cdef void make_room(self, Py_ssize_t n_items) except *
    cdef bint comes_first(self, long a, long b) noexcept
    cdef double first_key(self) noexcept
    cdef void push(self, long item, double key, long tie) noexcept
    cdef void remove(self, long item) noexcept
    cdef long pop(self) noexcept
