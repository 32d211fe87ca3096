cimport cython
from scheduler.node_resources.core.on_nodes cimport OnNodes
from sil.world.core.loop cimport Loop

cdef long WHOLE, NONE
cdef Py_ssize_t CORES
cdef int CHANGED, CONTINUED, DOWN, LOST, NEWS, STOPPED, UP
cdef double inf, nan

@cython.final
cdef class LoopOnNodes(Loop):
    cdef readonly OnNodes nodes
    cdef const long[::1] claim
    cdef readonly dict limit_of
    cdef set down, drained
    cdef list news
    cdef dict places
    cdef void take(self, steps) except *
    @cython.locals(end_s=double, place=long)
    cdef void suspend(self, Py_ssize_t slot) except *
    @cython.locals(end_s=double, place=long)
    cdef void go_on(self, Py_ssize_t slot) except *
    cdef void go_on_all(self) except *
    cdef void change_state(self, nodes, bint is_up) except *
    cdef list runs_on(self, long node)
    cdef void take_out(self, set out, long n, bint is_out) except *
    cdef long whole(self, long total) noexcept
