cimport cython
from scheduler.mapping.core.groups cimport Groups
from scheduler.mapping.core.lines cimport Lines

cdef double inf, SLACK
cdef long NONE, LAST_INDEX
cdef Py_ssize_t N_STEPS

@cython.final
cdef class LeastWork:
    cdef double[::1] slowness, work_s, least_s, speed_at
    cdef readonly object by_work
    cdef long[::1] in_order
    @cython.locals(least_s=cython.double, work_s=cython.double)
    cdef void measure(self, Lines lines, const double[::1] never_s) noexcept
    @cython.locals(n=cython.long, q=cython.long)
    cdef double least_rest_s(self, Lines lines) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cdef void add_speeds(self, Lines lines, double first_s, double step_s) noexcept

@cython.final
cdef class MaxMinByClass:
    cdef Lines lines
    cdef Groups groups
    cdef LeastWork least_work
    cdef double largest_s
    cdef long looks
    @cython.locals(is_class=cython.bint)
    cdef (long, long) next_class(self) noexcept
