cimport cython
from scheduler.core.waiting_tree cimport after
from scheduler.core.identical cimport IdenticalNodes

cdef extern from "math.h":
    double log1p(double) noexcept

cdef int OF_SIZE, OF_ESTIMATE, OF_WAIT, FITS, IS_IN_TIME, OF_FREE, OF_WAITING, OF_RESERVATION, OF_SPARE, OF_HORIZONS, N_OF_JOB
cdef Py_ssize_t NONE
cdef double LARGEST

@cython.final
cdef class Views:
    cdef readonly object seen
    cdef readonly Py_ssize_t window
    cdef double n_nodes
    cdef float[:, :, ::1] jobs
    cdef float[:, ::1] machine
    cdef unsigned char[:, ::1] mask
    cdef long[:, ::1] places
    cdef long[::1] n_rows, n_left
    cdef double[::1] horizons_s
    cpdef void begin_pass(self, IdenticalNodes q, Py_ssize_t at)
    @cython.locals(n_fitting=cython.Py_ssize_t, fits=cython.bint, is_in_time=cython.bint)
    cpdef Py_ssize_t observe(self, IdenticalNodes q, Py_ssize_t at, double now_s)
    cdef void clear_rows(self, Py_ssize_t at, Py_ssize_t n_rows) noexcept
    cdef void write_horizons(self, IdenticalNodes q, Py_ssize_t at, double now_s) noexcept
    cpdef bint is_excluded(self, Py_ssize_t at, Py_ssize_t action)
    cpdef Py_ssize_t chosen_row(self, Py_ssize_t at, Py_ssize_t action)
    cpdef void choose(self, IdenticalNodes q, Py_ssize_t at, Py_ssize_t row, double now_s) except *
    cpdef Py_ssize_t end_pass(self, IdenticalNodes q, double now_s)
    cdef void write_nothing(self, Py_ssize_t at) noexcept

cdef double scaled(double time_s) noexcept
