cimport cython
from scheduler.priority.core.limits cimport LimitUse

cdef double inf, DECAY, MIN_SCALE
cdef long NONE

@cython.final
cdef class FairShare:
    cdef readonly long[::1] parent, above, is_user, uses_parent
    cdef readonly double[::1] norm, of_all, usage, factor, level, effective
    cdef readonly Py_ssize_t n, n_users, n_running
    cdef readonly double scale, decay, last_s
    cdef readonly LimitUse limits
    cdef public double dampening, origin_s, period_s
    cdef public bint is_tree
    cdef public double[::1] resets_s
    cdef Py_ssize_t n_reset
    cdef long[::1] running, place, association, first_below, below
    cdef double[::1] rate, since_s
    cdef long rank, untied_rank
    cdef bint is_ranked
    cdef Py_ssize_t n_ended
    cdef long[::1] used_by
    cdef double[::1] used_last
    cdef void order_below(self) except *
    cpdef void resume(self, FairShare other) except *
    cpdef double next_s(self) noexcept
    @cython.locals(took_s=double, decayed_s=double)
    cdef double used_since(self, Py_ssize_t slot, double now_s) noexcept
    cdef void add(self, long a, double used) noexcept
    @cython.locals(n=Py_ssize_t)
    cpdef void begins(self, Py_ssize_t slot, long association, double rate, double now_s) except *
    cpdef void ends(self, Py_ssize_t slot, double now_s) except *
    @cython.locals(n=double)
    cpdef void calculate(self, double now_s) noexcept
    cdef void reset(self, double now_s) noexcept
    cdef bint never_resets(self) noexcept
    cdef void pass_time(self, double now_s) noexcept
    cpdef double of_root(self, long a) noexcept
    cdef void note_effective(self) noexcept
    cdef double effective_usage(self, long a) noexcept
    @cython.locals(tied=cython.bint, used=double, before=double)
    cdef void rank_below(self, long account, bint is_tied) noexcept
    cdef bint comes_first(self, long a, long b) noexcept
    cpdef double factor_of(self, long a) noexcept
