cimport cython
from scheduler.core.heap cimport Heap
from scheduler.core.queue cimport Queue
from sil.world.core.facts cimport Facts

cdef double inf, nan
cdef int ROUND, WAKE_UP, ARRIVAL, CHANGE, RELEASE, END, ACT, NEWS, STOP, GIVE_UP, ALL_ENDED, CHUNK, STUCK, PAUSE
cdef int ARRIVED, STARTED, ENDED, REFUSED, INELIGIBLE, ELIGIBLE, PREEMPTED
cdef int ACTUAL, HISTORY, CONSERVATIVE, LAST_RUNS
cdef Py_ssize_t NONE
cdef long PAUSE_AFTER, MAX_IDLE_ROUNDS, MAX_STARTS_OF_A_JOB
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
    cdef object eligibility, unsuccessful
    cdef public object saved, preemptor
    cdef readonly tuple changes
    cdef dict slot_of, n_requeued
    cdef set are_running, cancelled, too_late
    cdef list stopped
    cdef Py_ssize_t n_changed
    cdef int next_change
    cdef long[::1] n_due
    cdef double[::1] since_s
    cdef bint is_hopeless
    cdef dict left
    cdef double known_s, later_s, eligible_s, next_change_s, round_s, wake_up_s, wakes_s, idle_since_s
    cdef long n_idle
    cdef bint round_is_due, releases_first
    cdef int[10] rank
    cdef Heap running
    cdef long n_begun
    cdef Py_ssize_t first_released, n_released
    cdef long[::1] ended
    cdef int next_event(self) noexcept
    cdef void note_use(self, Py_ssize_t slot) except *
    cdef void carry_out(self, Py_ssize_t n_started) except *
    cdef void begin_runs(self, Py_ssize_t n_started) except *
    cdef void begin_run(self, Py_ssize_t slot) except *
    cdef void ends_no_more(self, Py_ssize_t slot) noexcept
    cdef void note_run(self, Py_ssize_t slot, int event, double seconds) except *
    cdef void expire(self, Py_ssize_t job) except *
    cdef void let_go(self, Py_ssize_t slot) except *
    cdef void free(self, Py_ssize_t slot) except *
    cdef void over(self, Py_ssize_t slot, bint is_stopped) except *
    cdef void withdraw(self, Py_ssize_t job) except *
    cdef void stop(self, Py_ssize_t slot) except *
    cdef bint refuses(self, long job) except -1
    cdef void next_job_arrives(self) except *
    cdef void arrives_under_conditions(self, Py_ssize_t job) except *
    cdef bint join_queue(self, Py_ssize_t job) except -1
    cdef void wait(self, Py_ssize_t job) except *
    cdef void note_next(self, Py_ssize_t job) noexcept
    cdef void admit(self) except *
    cdef void changes_now(self) except *
    cdef void change(self, change) except *
    cdef void read_news(self) except *
    cdef void act(self, acted) except *
    @cython.locals(is_ending=cython.bint)
    cdef void act_on_run(self, Py_ssize_t slot, str what) except *
    cdef double left_s(self, Py_ssize_t slot) except? -1
    cdef double lost_s(self, Py_ssize_t slot, double left_s) except? -1
    cdef void interrupt(self, Py_ssize_t slot, int event) except *
    @cython.locals(n=long)
    cdef void wait_again(self, Py_ssize_t slot) except *
    cdef void has_stopped(self) except *
    cdef void give_up(self, Py_ssize_t job, str why) except *
    cdef bint dismiss(self) except -1
    cdef void estimate_overdue(self) except *
    @cython.locals(may_go_on=cython.bint)
    cdef bint is_endless(self) noexcept
    cdef void happens(self, int kind) except *
    cdef void note_what_is_due(self) noexcept
    cdef void begin_round(self) except *
    cdef bint is_over(self) noexcept
    cpdef int advance(self, Py_ssize_t chunk) except -1
