cimport cython
cdef int ARRIVED, REFUSED, STARTED, ENDED, PREEMPTED, LOST, DOWN, UP, STOPPED, CONTINUED, DONE
cdef int UNKNOWN, RUNNING, JOB, RUN, REQUEST, BEGIN, AFTER, FIRST, LAST, NODE, CHUNKS, GPUS
cdef int N_CHUNKS, EXCLUSIVE, N_GPUS, GPU_SHARE, GPU_TYPES, AMOUNTS
cdef Py_ssize_t NONE

cdef class CleanFacts:
    cdef unsigned char[::1] down
    cdef long[:, ::1] held, runs
    cdef readonly Py_ssize_t n_waiting, n_running
    cdef long last_run
    cdef readonly long least
    cdef readonly long[::1] place_of
    cdef bint take(self, Py_ssize_t begin, Py_ssize_t after, Py_ssize_t request) noexcept
    cdef void give_back(self, Py_ssize_t begin, Py_ssize_t after, Py_ssize_t request) noexcept
    cdef Py_ssize_t row_of(self, long job, long run) noexcept
    @cython.locals(waits=cython.bint)
    cdef void over(self, Py_ssize_t row, int kind) noexcept
    cdef bint start(self, long job, long run, Py_ssize_t begin, Py_ssize_t after) except -1
    cpdef bint follow(self, const double[::1] times_s, unsigned char[::1] kinds, const long[::1] jobs, const long[::1] runs, const int[::1] machines, const long[::1] requests, const long[::1] held_ends) except -1

cdef class CleanOnMachines(CleanFacts):
    cdef unsigned char[::1] busy
    @cython.locals(busy='unsigned char[::1]', down='unsigned char[::1]', found='unsigned char', first=cython.Py_ssize_t, last=cython.Py_ssize_t)
    cdef bint take(self, Py_ssize_t begin, Py_ssize_t after, Py_ssize_t request) noexcept
    @cython.locals(busy='unsigned char[::1]', first=cython.Py_ssize_t, last=cython.Py_ssize_t)
    cdef void give_back(self, Py_ssize_t begin, Py_ssize_t after, Py_ssize_t request) noexcept

cdef class CleanOnNodes(CleanFacts):
    cdef unsigned char[::1] whole
    cdef long[::1] specification, n_chunks, of_site
    cdef long[:, ::1] room, gpus, gpu_types, requests
    cdef Py_ssize_t first_of_site, first_most
    @cython.locals(n_chunks=long)
    cdef bint take(self, Py_ssize_t begin, Py_ssize_t after, Py_ssize_t request) noexcept
    cdef bint take_on(self, long node, long chunks, Py_ssize_t request) noexcept
    cdef bint take_gpus(self, long node, long chunks, long gpus, Py_ssize_t request) noexcept
