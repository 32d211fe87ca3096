cimport cython

cdef double SLACK, TOGETHER_S
cdef long NONE, BY_MPL, NORMAL, PROPORTIONAL, UNIFORM_ELSE_NORMAL

@cython.final
cdef class SharedCluster:
    cdef readonly object jobs, nodes
    cdef Py_ssize_t n_nodes
    cdef const long[::1] tasks, most_jobs
    cdef const double[::1] needs_cpu, needs_mb, exe_s, cpu_s, local_mpl, local_cpu, most_cpu, most_mb
    cdef const double[::1] reserves, most_reserved
    cdef const unsigned char[::1] communicates
    cdef double[::1] used_s, run_s, cpu, memory_mb, reserved
    cdef long[::1] n_jobs
    cdef long[:, ::1] nodes_of, jobs_on
    cdef bint fits(self, long row, long n) noexcept
    cdef bint is_less_loaded(self, long a, long b) noexcept
    cdef bint least_loaded(self, long row, long[::1] chosen, bint only_idle) noexcept
    cdef bint matching_set(self, long row, long[::1] chosen) noexcept
    @cython.locals(load=cython.double)
    cdef double load_of_set(self, long row, long n) noexcept
    cpdef bint select(self, long row, long node_selection, long[::1] chosen) noexcept
    @cython.locals(cpu=cython.double, memory_mb=cython.double, reserved=cython.double)
    cdef void add_up(self, long n) noexcept
    cpdef void put(self, long row, const long[::1] chosen) noexcept
    cpdef void take_off(self, long row) noexcept
    cdef void carry_as(self, SharedCluster other) noexcept
    @cython.locals(most=cython.double)
    cdef double slowdown(self, long row, long method) noexcept
    cdef double remaining_s(self, long row, long method, double slower) noexcept
    cdef double cpu_rate(self, long row, long method, double slower) noexcept
    cpdef double expected_s(self, long row, long method) noexcept
