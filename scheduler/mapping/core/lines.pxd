cimport cython
cdef double inf
cdef long NONE, LAST_INDEX

@cython.final
cdef class Lines:
    cdef const double[:, ::1] by_job_class_s, by_machine_class_s
    cdef const long[::1] jobs, first_job, machines, first_machine
    cdef Py_ssize_t n_job_classes, n_machine_classes, n_machines
    cdef object plan, all_members
    cdef long[::1] plan_jobs
    cdef double[::1] start_s, completion_s
    cdef long[::1] next_job, members, run_at, run_length, n_runs, front, front_at, front_end, offers
    cdef double[::1] run_s, front_s
    cdef Py_ssize_t done
    cdef void begin(self, object next_job, const double[::1] ready_s) except *
    cdef bint is_used_up(self, long c) noexcept
    @cython.locals(a=cython.double, b=cython.double, c=cython.double, d=cython.double, e=cython.double, f=cython.double, g=cython.double, h=cython.double)
    cdef double soonest(self, const double[:, ::1] times_s, Py_ssize_t row) noexcept
    cdef long place(self, long c, double completion_s, long until_job, Py_ssize_t n_offers) noexcept
    cdef void take_behind(self, long k, Py_ssize_t x) noexcept
    cdef void next_front(self, long k) noexcept
    cdef void push_run(self, long k, double ready_s, long at, long length) noexcept
    cdef void drop_run(self, long k, Py_ssize_t x) noexcept
    cdef void rise(self, Py_ssize_t base, Py_ssize_t x, double ready_s, long at, long length) noexcept
    cdef void move_run(self, Py_ssize_t source, Py_ssize_t target) noexcept

cdef void sort_ascending(long[::1] values, Py_ssize_t begin, Py_ssize_t end) noexcept
