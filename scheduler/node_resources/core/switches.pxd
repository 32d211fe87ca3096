cimport cython

cdef long NONE

@cython.final
cdef class Switches:
    cdef readonly Py_ssize_t n, n_leaves, n_levels
    cdef long[::1] leaf, gets, level, sizes, room
    cdef unsigned char[:, ::1] below
    cdef unsigned char[::1] out
    cdef long n_used
    cdef void count_room(self, const long[::1] fit) noexcept
    cdef bint is_better(self, Py_ssize_t a, Py_ssize_t b, long chunks) noexcept
    @cython.locals(best=Py_ssize_t, is_part=cython.bint)
    cdef Py_ssize_t best(self, Py_ssize_t of, long level, long chunks) noexcept
    @cython.locals(here=long)
    cdef void give(self, Py_ssize_t of, long chunks) noexcept
    @cython.locals(s=Py_ssize_t, n_parts=long, is_block=cython.bint)
    cdef bint divide_below(self, Py_ssize_t top, long chunks, long n_nodes) noexcept
    @cython.locals(level=long)
    cpdef long divide(self, const long[::1] fit, long chunks, long n_nodes) except -1
