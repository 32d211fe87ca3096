cimport cython
from scheduler.core.heap cimport Heap
from scheduler.core.queue cimport Queue
from sil.world.core.facts cimport Facts

cdef double inf
cdef int ROUND, WAKE_UP, ARRIVAL, CHANGE, RELEASE, END, ALL_ENDED, CHUNK, STUCK, PAUSE, ARRIVED, STARTED, ENDED, REFUSED, INELIGIBLE, ELIGIBLE
cdef int ACTUAL, HISTORY, CONSERVATIVE, LAST_RUNS
cdef Py_ssize_t NONE
cdef long PAUSE_AFTER, MAX_IDLE_ROUNDS
cdef double MIN_STEP_S

@cython.final
cdef class Estimators:
    cdef int by
    cdef long[::1] n_corrections, n_last
    cdef double[:, ::1] last_s
    cdef double[::1] more_s
    cdef double first_s(self, double limit_s, double run_s, long user) noexcept
    cdef double outlived_s(self, Py_ssize_t job, double limit_s, double ran_s) noexcept
    cdef void learn(self, long user, double ran_s) noexcept

cdef class Loop:
    cdef readonly Queue queue
    cdef public Facts facts
    cdef readonly Estimators estimates
    cdef const double[::1] submit_s, run_s, limit_s, due_in_s
    cdef const long[::1] size, kind, user
    cdef const unsigned char[::1] refused
    cdef readonly Py_ssize_t n_jobs, next_job, n_unfinished
    cdef readonly double now_s
    cdef object eligibility, acts, unsuccessful
    cdef dict slot_of
    cdef set are_running
    cdef Py_ssize_t n_acts
    cdef double act_s, eligible_s, next_change_s, round_s, wake_up_s, wakes_s, idle_since_s
    cdef long n_idle
    cdef bint round_is_due, releases_first
    cdef int[6] rank
    cdef Heap running
    cdef Py_ssize_t first_released, n_released
    cdef long[::1] ended
    cdef int next_event(self) noexcept
    cdef void note_use(self, Py_ssize_t x) except *
    cdef void carry_out(self, Py_ssize_t n_started) except *
    cdef bint refuses(self, long job) except -1
    cdef void next_job_arrives(self) except *
    cdef void arrives_under_conditions(self, Py_ssize_t job) except *
    cdef void join_queue(self, Py_ssize_t job) except *
    cdef void admit(self) except *
    cdef void act(self) except *
    cdef bint dismiss(self) except -1
    cdef void estimate_overdue(self) except *
    @cython.locals(may_go_on=cython.bint)
    cdef bint is_endless(self) noexcept
    cdef void happens(self, int kind) except *
    cdef void note_what_is_due(self) noexcept
    cdef void begin_round(self) noexcept
    cdef bint is_over(self) noexcept
    cpdef int advance(self, Py_ssize_t chunk) except -1
