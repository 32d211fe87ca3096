cimport cython
from scheduler.core.heap cimport Heap
from scheduler.node_resources.core.state cimport Kinds, NodeState
from scheduler.node_resources.core.timeline cimport Segments, Timeline

cdef double inf
cdef long NONE

@cython.final
cdef class Search:
    cdef NodeState nodes
    cdef Kinds kinds
    cdef Timeline timeline
    cdef Segments segments
    cdef readonly long most
    cdef long own
    cdef readonly Heap heap
    cdef double[::1] at_s, offers_s, beyond_s
    cdef readonly long[::1] offer
    cdef long[::1] at, offering
    cdef Py_ssize_t known
    cdef long[::1] known_kind
    cdef double[::1] known_takes_s
    cdef long[:, ::1] known_version
    cdef double[:, ::1] busy_until_s
    @cython.locals(is_allowed=cython.bint)
    cdef bint has_a_chunk(self, Py_ssize_t k, Py_ssize_t n, long x) noexcept
    cdef void begin_window(self, Py_ssize_t n, long x) noexcept
    cdef void widen_window(self, Py_ssize_t n, long x) noexcept
    cdef double look_at(self, Py_ssize_t k, Py_ssize_t n, double from_s, double takes_s, double before_s) noexcept
    cdef double site_offers_s(self, Py_ssize_t k, double from_s, double takes_s) noexcept
    @cython.locals(row=Py_ssize_t)
    cdef void begin(self, Py_ssize_t k, double takes_s) noexcept
    cdef bint offers_none(self, Py_ssize_t n, double before_s) noexcept
    @cython.locals(is_known=cython.bint)
    cdef void first_look_at(self, Py_ssize_t k, Py_ssize_t n, double from_s, double takes_s, double before_s, double now_s) noexcept
    cdef void look_again_at(self, Py_ssize_t n, double at_s) noexcept
    cdef long offers_now(self, Py_ssize_t n, double start_s) noexcept
    @cython.locals(total=long, now_fit=long)
    cdef double earliest_s(self, Py_ssize_t k, long chunks, double from_s, double takes_s, double before_s, double now_s) noexcept
