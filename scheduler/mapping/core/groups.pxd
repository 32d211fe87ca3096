cimport cython
from scheduler.mapping.core.lines cimport Lines

cdef double inf, ALIKE
cdef long NONE

@cython.final
cdef class Groups:
    cdef Lines lines
    cdef readonly Py_ssize_t n_blocks
    cdef const double[:, ::1] block_s
    cdef long[::1] members, first_member
    cdef double[::1] minus_s, bound_s
    cdef long[::1] child, sibling, head, equal_child, equal_sibling, top
    cdef object at_start
    cdef long[::1] tied, group_of
    cdef Py_ssize_t n_tied
    cdef double bound_of(self, long k) noexcept
    cdef void join(self, long c, long k, double time_s) noexcept
    cdef long meld_equals(self, long a, long b) noexcept
    cdef long without_lowest(self, long c) noexcept
    cdef double best_completion_s(self, long c) noexcept
    cdef long enter(self, long c, double completion_s) noexcept
    cdef void enter_members(self, long b) noexcept
    cdef double latest_member_s(self, long b) noexcept
    cdef void group_all(self) noexcept
    cdef void restart(self) except *
    cdef void take_tied(self, double largest_s) noexcept
    cdef void put_tied_back(self, double largest_s) noexcept

ctypedef fused Key:
    double[::1]
    long[::1]

cdef long meld(Key key, long[::1] child, long[::1] sibling, long a, long b) noexcept
cdef long without_root(Key key, long[::1] child, long[::1] sibling, long root) noexcept
cpdef void longest(const double[:, ::1] times_s, long[::1] members, long[::1] first, double[:, ::1] row_s)
