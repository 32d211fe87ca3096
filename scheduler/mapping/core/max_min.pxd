cimport cython
from scheduler.mapping.core.groups cimport Groups
from scheduler.mapping.core.least_work cimport LeastWork
from scheduler.mapping.core.lines cimport Lines

cdef double inf, SLACK
cdef long NONE, LAST_INDEX

@cython.final
cdef class MaxMinByClass:
    cdef Lines lines
    cdef Groups groups
    cdef LeastWork least_work
    cdef double largest_s
    cdef long looks
    @cython.locals(is_class=cython.bint)
    cdef (long, long) next_class(self) noexcept
