cimport cython
from scheduler.node_resources.core.state cimport NodeState

cdef double inf
cdef long NONE, WHOLE, ONE

@cython.final
cdef class Segments:
    cdef NodeState nodes
    cdef long[::1] first, next, n_chunks, reserved
    cdef double[::1] start_s
    cdef long[:, ::1] free, gpu_free
    cdef long spare, n_used
    cdef double end_s(self, long x) noexcept
    cdef long at(self, long place, double time_s) noexcept
    cdef void forget_past(self, long place, double now_s) noexcept
    cdef void make_room(self) except *
    cdef long split(self, long x, double time_s) except -1
    cdef bint is_same(self, long x, long y) noexcept
    cdef void join(self, long x) noexcept
    cdef bint is_overbooked(self, long x) noexcept

@cython.final
cdef class Timeline:
    cdef readonly NodeState nodes
    cdef readonly Segments segments
    cdef long[::1] node, chunks, gpus, kind, next_of_job, next_on_node, first_on_node, version
    cdef double[::1] start_s, end_s
    cdef long clock, spare, n_used
    cdef void make_room(self) except *
    cdef long new_use(self, long node, long chunks, long gpus, long kind, long following) except -1
    cdef long use_of_site(self, long kind) except -2
    cdef void take_of(self, long x, long use, long sign) noexcept
    cdef void shift(self, long use, double from_s, double until_s, long sign) except *
    @cython.locals(alone=cython.bint, own=long)
    cdef bint leaves_room(self, long use, double from_s, double until_s) noexcept
    cdef bint has_room(self, long first) noexcept
    cdef void has_gained(self, long place) noexcept
    cdef void put_in(self, long first, double start_s, double end_s) except *
    cdef void lift(self, long first) except *
    cdef void stay_out(self, long first) noexcept
    cdef void take_out(self, long first) except *
    cdef void drop(self, long first) noexcept
    cdef void give_up(self, long first) except *
    cdef bint end_at(self, long first, double end_s) except -1
    cdef void write_gpu_chunks(self, long n, double from_s, double until_s) noexcept
