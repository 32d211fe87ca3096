cimport cython
cdef double inf
cdef Py_ssize_t NONE

@cython.final
cdef class WaitingTree:
    cdef readonly Py_ssize_t capacity, n_places
    cdef readonly long[::1] n_jobs, job, slot
    cdef readonly double[::1] size, estimate_s
    cdef void summarise(self, Py_ssize_t k) noexcept
    cdef void set_leaf(self, Py_ssize_t place, long n_jobs, double size, double estimate_s) noexcept
    cdef void add(self, long job, long slot, double size, double estimate_s, long[::1] place_of) except *
    cdef void close_ranks(self, long[::1] place_of) noexcept
    cdef void double_capacity(self) except *
    cdef Py_ssize_t place_of(self, Py_ssize_t rank) noexcept
    cdef Py_ssize_t rank_of(self, Py_ssize_t place) noexcept
    cdef Py_ssize_t first_in_queue(self, bint shortest) noexcept
    cdef Py_ssize_t first_that_fits(self, double most, double spare, double now_s, double until_s) noexcept
    cdef Py_ssize_t shortest_that_fits(self, double most) noexcept
    @cython.locals(may=cython.bint)
    cdef Py_ssize_t most_urgent(self, double[::1] urgency, double most, double spare, double now_s, double until_s) noexcept

cpdef Py_ssize_t after(Py_ssize_t k) noexcept
