cimport cython
@cython.final
cdef class Facts:
    cdef public Py_ssize_t n, n_decisions
    cdef readonly Py_ssize_t room, room_for_decisions
    cdef readonly double[::1] time_s, expected_s, asked_s
    cdef readonly unsigned char[::1] event
    cdef readonly long[:, ::1] held
    cdef readonly long[::1] job, run, held_end, whole_cores, n_waiting, n_started
    cdef readonly dict texts
    cdef void say(self, double time_s, int event, long job, text) except *
    cdef void note(self, double time_s, int event, long job, long run, double expected_s) except *
    cdef void decided(self, double now_s, long n_waiting, long n_started) except *
    cdef void hold(self, long first, long second, long third) except *
