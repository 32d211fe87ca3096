cimport cython
from scheduler.core.heap cimport Heap

cdef Py_ssize_t MIN_SIZE

@cython.final
cdef class PendingEvents:
    cdef Heap heap
    cdef readonly long pushed
    cdef long[::1] free, kind, subject, version
    cdef Py_ssize_t n_free, n_used
    cdef void make_room(self) except *
    @cython.locals(x=long)
    cdef void push(self, long time, long kind, long subject, long version) except *
    @cython.locals(x=long)
    cdef long pop(self) noexcept
