cimport cython
from scheduler.node_resources.core.on_nodes cimport OnNodes
from sil.world.core.loop cimport Replay

cdef long WHOLE, ONE
cdef Py_ssize_t CORES
cdef int TAB, SPACE, COMMA, COLON, AT_SIGN

cdef class ReplayOnNodes(Replay):
    cdef readonly OnNodes nodes
    cdef unsigned char[::1] marks
    cdef void note_nodes(self, Py_ssize_t begin, Py_ssize_t after) except *
    cdef void note_share(self, Py_ssize_t row) except *
    @cython.locals(total=long)
    cdef long whole_cores(self, Py_ssize_t begin, Py_ssize_t after) noexcept
