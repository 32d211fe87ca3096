cimport cython

cdef double inf
cdef long NONE
cdef unsigned long MASK

@cython.final
cdef class Annealing:
    cdef const double[:, ::1] times_s
    cdef const long[:, ::1] favourites
    cdef const double[::1] ready_s
    cdef double[::1] free_s
    cdef const long[::1] members, first_member
    cdef long[::1] head, behind
    cdef long[:, ::1] population, child
    cdef readonly object best
    cdef unsigned long state
    cdef Py_ssize_t drawn(self, Py_ssize_t n) noexcept
    @cython.locals(after=cython.long, before=cython.long)
    cdef void line_up_jobs(self, long[:, ::1] schedules, Py_ssize_t p) noexcept
    @cython.locals(end_s=cython.double, i=cython.long)
    cdef double sum_s(self, long[:, ::1] schedules, Py_ssize_t p) noexcept
    cdef long other_resource(self, Py_ssize_t i) noexcept
    cdef void beget(self, Py_ssize_t p) noexcept
    cdef void anneal(self, long[::1] best, double[::1] sums_s, double cooling, long generations) noexcept
