cimport cython
from scheduler.node_resources.core.on_nodes cimport OnNodes
from sil.world.core.loop cimport Loop

cdef long WHOLE
cdef Py_ssize_t CORES

@cython.final
cdef class LoopOnNodes(Loop):
    cdef readonly OnNodes nodes
    cdef const long[::1] claim
    @cython.locals(total=long)
    cdef long whole_cores(self, Py_ssize_t begin, Py_ssize_t after) noexcept
