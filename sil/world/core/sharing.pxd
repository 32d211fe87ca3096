cimport cython

cdef double TOLERANCE
cdef long MAX_ITERATIONS

@cython.locals(moved=cython.double)
cpdef void solve(const double[::1] cpu, const double[::1] elsewhere, double available, double inflation, double loss, double[::1] found) noexcept
