cimport cython
cdef double inf
cdef long NONE

@cython.final
cdef class Clusters:
    cdef const double[:, ::1] by_job_class_s, times_s
    cdef const long[::1] jobs, first_job, machines, first_machine
    cdef readonly object passed_over
    cdef unsigned char[:, ::1] is_passed_over
    cdef long[::1] members, first_member
    cdef readonly object alone_s
    cdef double[::1] best_alone_s, front_s
    @cython.locals(least_s=cython.double)
    cpdef void find_best_alone(self, const double[::1] ready_s)
    cdef (long, long) best_pair(self, const long[::1] next_job, const double[::1] ready_s) noexcept
