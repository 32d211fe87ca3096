cimport cython

cdef double ROUNDING, OF_A_MINUTE
cdef long NODES, NONE, SUBMITTED, TO_RUN, USED, WALL_SAFELY

@cython.final
cdef class LimitUse:
    cdef readonly Py_ssize_t n_claims, n_rows, n_limits
    cdef readonly long[::1] first_row, limit, binds, bounds, claim
    cdef public long[:, ::1] on
    cdef readonly unsigned char[::1] of_nodes
    cdef readonly double[::1] amount, factor, limit_s, most, used, past, left
    cpdef long add(self, double most, long bounds, double past) except -1
    cpdef long add_claim(self, double factor, double limit_s) except -1
    cpdef void add_row(self, long limit, double amount, bint binds) except *
    cpdef void arrives(self, Py_ssize_t slot, long claim) except *
    @cython.locals(past=long, used=long)
    cpdef bint exceeds(self, long limit, double more) noexcept
    cpdef long first_exceeded(self, long claim, bint of_submitted) noexcept
    @cython.locals(n_new=long)
    cpdef long first_exceeded_on(self, long claim, long[::1] nodes, Py_ssize_t begin, Py_ssize_t after) noexcept
    cpdef void change(self, Py_ssize_t slot, long claim) noexcept
    cdef long claim_of(self, Py_ssize_t slot) noexcept
    cdef bint counts_on(self, long claim, long node) noexcept
    cpdef void count_on(self, long claim, long node, int sign) noexcept
    cdef double counted(self, Py_ssize_t x, long claim) noexcept
    @cython.locals(part=double)
    cpdef void count(self, Py_ssize_t slot, bint of_submitted, int sign) noexcept
    @cython.locals(passed=double)
    cpdef void runs(self, Py_ssize_t slot, double took_s, double decayed_s) noexcept
    cpdef void decay(self, double by) noexcept
