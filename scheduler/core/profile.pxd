cimport cython
from scheduler.core.releases cimport Releases

cdef double inf

@cython.final
cdef class Profile:
    cdef readonly Py_ssize_t n
    cdef readonly double[::1] time_s
    cdef readonly long[::1] free
    cdef void make_room(self, Py_ssize_t n) except *
    cdef void begin(self, double now_s, long n_free) noexcept
    cdef Py_ssize_t row_from(self, double time_s) noexcept
    cdef void beside_runs(self, Releases releases, long n_free, double now_s, double soon_s) except *
    cdef Py_ssize_t row_at(self, double time_s) noexcept
    cdef void cut(self, double time_s) noexcept
    cdef void add(self, double start_s, double end_s, long nodes) noexcept
    cdef double earliest_s(self, double from_s, long size, double takes_s, double own_s) noexcept
    cdef void copy_from(self, Profile other, double now_s) except *
    cdef bint is_nowhere_freer(self, Profile last) noexcept
    cdef bint goes_on_as(self, Profile last) noexcept
    cdef void find_peaks(self, Profile peaks) except *
