cimport cython
from scheduler.node_resources.core.on_nodes cimport OnNodes
from sil.world.core.loop cimport Loop

cdef long WHOLE, NONE
cdef Py_ssize_t CORES
cdef double inf
cdef int CHANGED

@cython.final
cdef class LoopOnNodes(Loop):
    cdef readonly OnNodes nodes
    cdef const long[::1] claim
    cdef readonly dict limit_of
    cdef tuple changes
    cdef Py_ssize_t n_changed
    @cython.locals(total=long)
    cdef long whole_cores(self, Py_ssize_t begin, Py_ssize_t after) noexcept
