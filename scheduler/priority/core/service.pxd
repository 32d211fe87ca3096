cimport cython
from scheduler.priority.core.fair_share cimport FairShare
from scheduler.priority.core.limits cimport LimitUse

cdef double inf, HIGHEST
cdef long NONE, FIRST, SUBMITTED

cdef class Service:
    cdef public long next_claim
    cdef readonly LimitUse limits
    cpdef void arrives(self, Py_ssize_t slot, double now_s) except *
    cpdef bint calculate(self, double now_s)
    cpdef double next_s(self) noexcept
    cpdef long order(self, Py_ssize_t slot) noexcept
    cpdef long charged(self, Py_ssize_t slot) noexcept
    cpdef long refusing(self) noexcept
    cpdef long reached(self, Py_ssize_t slot) noexcept
    cpdef bint is_held(self, Py_ssize_t slot) noexcept
    cpdef void take(self, Py_ssize_t slot, int sign) noexcept
    cpdef void begins(self, Py_ssize_t slot, double now_s) except *
    cpdef void ends(self, Py_ssize_t slot, double now_s) except *
    cdef void leaves(self, Py_ssize_t slot) noexcept

@cython.final
cdef class ByPolicy(Service):
    cdef readonly FairShare fair
    cdef readonly double age, max_age_s, fair_share, calculated_s
    cdef readonly long[::1] association, tier, is_first
    cdef readonly double[::1] fixed, rate, since_s
    cpdef void describe(self, long claim, long association, double fixed, double rate, long tier) except *
    cpdef void serve_first(self, Py_ssize_t slot) noexcept
    cpdef long priority(self, Py_ssize_t slot) noexcept
    cpdef double age_factor(self, Py_ssize_t slot) noexcept
