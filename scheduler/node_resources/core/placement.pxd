cimport cython
from scheduler.node_resources.core.state cimport NodeState

cdef long NONE, WHOLE
cdef Py_ssize_t CORES
cdef int FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, GPU_PACKING, CONSECUTIVE, IN_PYTHON

@cython.final
cdef class Rows:
    cdef public Py_ssize_t n
    cdef long[::1] node, chunks, gpus
    cpdef void add(self, long node, long chunks, long gpus) except *

cdef class Ranking:
    cdef readonly NodeState state
    cdef readonly int selection
    cdef readonly bint is_scored
    cdef double[::1] weights
    cdef readonly double[:, ::1] scores
    cdef readonly long[::1] seen
    cdef long[::1] heap, after, room, cpus
    cdef void make_room(self) except *
    cpdef void score_in_python(self, Py_ssize_t k) except *
    cpdef long gpu(self, Py_ssize_t k, Py_ssize_t n) except -2
    cdef void make_current(self, Py_ssize_t k) except *
    cdef bint is_better(self, Py_ssize_t k, long a, long b) noexcept
    cdef void sift_down(self, Py_ssize_t k, Py_ssize_t size, Py_ssize_t x) noexcept
    @cython.locals(most=long)
    cdef long most_on(self, Py_ssize_t k, Py_ssize_t n, long chunks) noexcept
    cdef void write_row(self, Py_ssize_t k, long n, long chunks, Rows rows) except *
    cdef void choose(self, Py_ssize_t k, long chunks, Rows rows) except *
    @cython.locals(here=long, suffices=cython.bint)
    cdef void choose_consecutive(self, Py_ssize_t k, long chunks, Rows rows) except *
    @cython.locals(asks=cython.bint)
    cdef void take_rows(self, Py_ssize_t k, Rows rows, Py_ssize_t begin) except *
    cpdef void take_best(self, Py_ssize_t k, long chunks, Rows rows) except *

@cython.locals(product=double)
cdef double dot_product(NodeState state, Py_ssize_t k, Py_ssize_t n, double[::1] weights) noexcept
@cython.locals(left=double)
cdef double tightness(NodeState state, Py_ssize_t k, Py_ssize_t n, double[::1] weights) noexcept
@cython.locals(n_gpus=long, n_untouched=long)
cdef double packing(NodeState state, Py_ssize_t k, Py_ssize_t n) noexcept
cdef double clustering(NodeState state, Py_ssize_t k, Py_ssize_t n) noexcept
cdef double score(NodeState state, int selection, double[::1] weights, Py_ssize_t k, Py_ssize_t n) noexcept
cpdef void write_scores(NodeState state, int selection, double[::1] weights, Py_ssize_t k, const long[::1] which, double[:, ::1] scores) noexcept
