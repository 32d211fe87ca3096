cimport cython
cimport libc.math as math
from scheduler.node_resources.core.state cimport NodeState

cdef long NONE, WHOLE, ONE
cdef Py_ssize_t CORES

@cython.final
cdef class Typical:
    cdef long[::1] cores, gpus, gpu_share, gpu_types
    cdef double[::1] weight
    @cython.locals(lacks_both=double, lacks_gpus=double, lacks_cores=double, no_gpu_requested=double, neither=double, no_access=double, unusable=long, has_type=bint, has_cores=cython.bint, is_allowed=cython.bint)
    cdef double fragmentation(self, NodeState state, long cores_left, Py_ssize_t n) noexcept
    cdef double after_whole_gpus(self, NodeState state, Py_ssize_t k, Py_ssize_t n, long cores_left) noexcept
    cdef (double, long) best_descent(self, NodeState state, Py_ssize_t k, Py_ssize_t n, bint in_steps) noexcept
    cpdef void write_descents(self, NodeState state, bint in_steps, Py_ssize_t k, const long[::1] which, double[:, ::1] scores) noexcept
    cpdef void write_fragmentation(self, NodeState state, const long[::1] which, double[::1] found) noexcept

cdef double descent(double before, double after, bint in_steps) noexcept
cdef bint has_twin(NodeState state, Py_ssize_t n, Py_ssize_t d) noexcept
