cimport cython
@cython.final
cdef class Starting:
    cdef public Py_ssize_t n
    cdef readonly Py_ssize_t room
    cdef readonly long[::1] place, size, rank, n_intervals
    cdef readonly double[::1] takes_s
    cdef void add(self, long place, long size, double takes_s, long rank) except *
