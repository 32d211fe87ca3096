cimport cython
from scheduler.priority.core.fair_share cimport FairShare

cdef double inf, HIGHEST, ROUNDING
cdef long NONE, FIRST

cdef class Service:
    cdef public long next_claim
    cpdef void arrives(self, Py_ssize_t slot, double now_s) except *
    cpdef bint calculate(self, double now_s)
    cpdef double next_s(self) noexcept
    cpdef long order(self, Py_ssize_t slot) noexcept
    cpdef long charged(self, Py_ssize_t slot) noexcept
    cpdef long refusing(self) noexcept
    cpdef long reached(self, Py_ssize_t slot) noexcept
    cpdef void take(self, Py_ssize_t slot, int sign) noexcept
    cpdef void begins(self, Py_ssize_t slot, double now_s) except *
    cpdef void ends(self, Py_ssize_t slot, double now_s) except *
    cdef void leaves(self, Py_ssize_t slot) noexcept

@cython.final
cdef class ByPolicy(Service):
    cdef readonly FairShare fair
    cdef readonly double age, max_age_s, fair_share, calculated_s
    cdef readonly Py_ssize_t n_claims, n_rows, n_limits
    cdef readonly long[::1] binds, of_submitted, association, tier, first_row, limit, claim, is_first
    cdef readonly double[::1] fixed, rate, amount, most, used, since_s
    cpdef long add_limit(self, double most, bint of_submitted) except -1
    cpdef long add_claim(self, long association, double fixed, double rate, long tier) except -1
    cpdef void serve_first(self, Py_ssize_t slot) noexcept
    cpdef long priority(self, Py_ssize_t slot) noexcept
    cpdef void add_row(self, long limit, double amount, bint binds) except *
    cdef long first_exceeded(self, long claim, bint of_submitted) noexcept
    cdef void count(self, long claim, bint of_submitted, int sign) noexcept
    cpdef bint exceeds(self, long limit, double more) noexcept
    cpdef double age_factor(self, Py_ssize_t slot) noexcept
