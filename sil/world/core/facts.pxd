cdef Py_ssize_t MOST_DIGITS

cdef class Facts:
    cdef public Py_ssize_t n, n_decisions
    cdef readonly Py_ssize_t room, room_for_decisions, room_for_text
    cdef readonly double[::1] time_s, expected_s, asked_s
    cdef readonly unsigned char[::1] event, text
    cdef readonly long[::1] job, run, text_end, n_waiting, n_started
    cdef void note(self, double time_s, int event, long job, long run, double expected_s) except *
    cdef void decided(self, double now_s, long n_waiting, long n_started) except *
    cdef Py_ssize_t write_number(self, Py_ssize_t at, long number) noexcept
    cdef void byte(self, int byte) except *
    cdef void number(self, long number) except *
    cdef void nodes(self, long first, long last, bint is_first) except *
