cimport cython
from sil.world.core.identical cimport LoopOnIdenticalNodes
from sil.world.core.observation cimport Views

cdef int ROUND, ALL_ENDED, STUCK, GOES_ON, ASKS
cdef long NO_ANSWER, NO_JOB
cdef double inf

@cython.final
cdef class PolicyLoop(LoopOnIdenticalNodes):
    cdef int go_on(self, Views views, Py_ssize_t at) except -1
    cdef int answered(self, Views views, Py_ssize_t at, Py_ssize_t row) except -1

@cython.final
cdef class PolicyAnswers:
    cdef readonly object numbers
    cdef long[::1] state, action, job, size
    cdef unsigned char[::1] is_excluded
    cdef double[::1] asked_s, wait_s, run_s, now_s
    cdef void go_on(self, PolicyLoop replay, Views views, Py_ssize_t at) except *
    cdef Py_ssize_t note_answer(self, PolicyLoop replay, Views views, Py_ssize_t at) except -1
