cimport cython
from scheduler.node_resources.core.calendar cimport Calendar
from scheduler.node_resources.core.switches cimport Switches

cdef long NONE, WHOLE, ONE
cdef Py_ssize_t FREE

@cython.final
cdef class Kinds:
    cdef readonly Py_ssize_t n
    cdef readonly long[:, ::1] need
    cdef readonly long[::1] gpus, gpu_share, gpu_types, most_on_node, pool, job_class
    cdef readonly Calendar calendar
    cdef readonly unsigned char[::1] exclusive
    cdef readonly unsigned char[:, ::1] eligible
    cdef public unsigned char[:, ::1] overlap
    cdef public Switches switches
    cdef readonly long[::1] on_node, most_leaves, after
    cdef readonly double[::1] wait_s
    cpdef long n_leaves(self, Py_ssize_t k, long chunks, long[::1] fit) except -1
    cdef bint connects(self, Py_ssize_t k, long chunks, long[::1] fit) noexcept
    cpdef bint takes_parts_of_gpus(self, Py_ssize_t k) noexcept
    cpdef long own(self, Py_ssize_t k) noexcept
    cdef long placed(self, Py_ssize_t k, long chunks) noexcept
    cdef Py_ssize_t gpu_kind(self, Py_ssize_t k) noexcept

@cython.final
cdef class NodeState:
    cdef readonly object table
    cdef readonly Kinds kinds
    cdef readonly Py_ssize_t n_nodes, n_resources, n_gpus, n_site
    cdef long[:, ::1] capacity, free, gpu_type, gpu_free, gpu_chunks, site
    cdef long[::1] n_chunks
    cdef double[::1] largest
    cdef long[::1] version, newer, older
    cdef readonly long clock
    cdef Py_ssize_t newest
    cdef readonly long[:, ::1] fit
    cdef readonly long[::1] total
    cdef long[::1] seen
    cdef void make_room(self) except *
    cpdef void has_changed(self, Py_ssize_t n) noexcept
    cdef long site_need(self, Py_ssize_t k, Py_ssize_t s) noexcept
    cdef void give_of_site(self, Py_ssize_t k, long sign) noexcept
    cdef bint site_suffices(self, Py_ssize_t k) noexcept
    cdef bint requests_of_site(self, Py_ssize_t k) noexcept
    @cython.locals(left=long)
    cdef long gpu_left(self, Py_ssize_t n) noexcept
    cdef bint offers(self, Py_ssize_t k, Py_ssize_t n, Py_ssize_t d) noexcept
    cdef long tightest_gpu(self, Py_ssize_t k, Py_ssize_t n) noexcept
    cdef long gpu_chunks_that_fit(self, Py_ssize_t k, Py_ssize_t n, long most) noexcept
    cdef bint is_open(self, Py_ssize_t k, Py_ssize_t n) noexcept
    cdef long chunks_that_fit(self, Py_ssize_t k, Py_ssize_t n) noexcept
    cdef long most_on(self, Py_ssize_t k, Py_ssize_t n, long most) noexcept
    cdef void refresh(self, Py_ssize_t k) noexcept
    cdef bint fits_now(self, Py_ssize_t k, long chunks) noexcept
    cpdef bint fits(self, Py_ssize_t k, long chunks) except -1
    cpdef Py_ssize_t next_that_may_fit(self, NodeState without, long[::1] kinds, long[::1] chunks, Py_ssize_t i, Py_ssize_t end) except -1
    cdef long choose_gpus(self, Py_ssize_t k, Py_ssize_t n, long wanted, long gpu) noexcept
    cdef long take_all(self, Py_ssize_t n) noexcept
    cpdef long take(self, Py_ssize_t k, Py_ssize_t n, long chunks, long gpus, long gpu) noexcept
    cpdef void take_all_of(self, Py_ssize_t k, long[:, ::1] used) noexcept
    cpdef void give_all_back(self, Py_ssize_t k, const long[:, ::1] used) noexcept
    cpdef void give_back(self, Py_ssize_t k, Py_ssize_t n, long chunks, long gpus) noexcept

cdef long times(long need, long amount, long most) noexcept
