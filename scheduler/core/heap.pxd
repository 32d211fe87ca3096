cimport cython

@cython.final
cdef class Heap:
    cdef readonly Py_ssize_t n
    cdef long[::1] items, ties
    cdef double[::1] keys
    cdef void make_room(self, Py_ssize_t n_items) except *
    cdef bint comes_first(self, long a, long b) noexcept
    cdef double first_key(self) noexcept
    cdef void push(self, long item, double key, long tie) noexcept
    cdef long pop(self) noexcept
