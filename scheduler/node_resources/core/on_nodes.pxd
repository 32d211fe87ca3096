cimport cython
from scheduler.core.queue cimport Queue
from scheduler.node_resources.core.calendar cimport Calendar
from scheduler.node_resources.core.placement cimport Ranking, Rows
from scheduler.node_resources.core.state cimport NodeState
from scheduler.priority.core.limits cimport LimitUse
from scheduler.priority.core.service cimport Service

cdef long NONE
cdef double inf

@cython.final
cdef class Held:
    cdef readonly long[::1] node, chunks, gpus, kind, next
    cdef readonly Py_ssize_t n_used
    cdef long spare
    cdef long new_row(self) except -1
    cdef long hold(self, Rows rows, Py_ssize_t begin, Py_ssize_t after, long kind) except -2
    cdef void let_go(self, long first) noexcept

cdef class StartRule:
    cdef readonly bint takes
    cpdef Py_ssize_t decide(self, int ordering, int backfilling, double now_s) except -1

cdef class OnNodes(Queue):
    cpdef bint nothing_fits(self)
    cdef readonly NodeState nodes
    cdef readonly Held held
    cdef readonly Rows rows
    cdef readonly Calendar calendar
    cdef Py_ssize_t n_hidden
    cdef double any_switches_s
    cdef long[::1] hidden, hidden_fit, fit_there
    cdef public StartRule rule
    cdef public Service service
    cdef public object displacement
    cdef public bint is_reordered
    cdef readonly long[::1] kind, chunks, first_row, ticket, rank, in_order, by_estimate, placed, after, priority, user
    cdef readonly double[::1] estimate_s
    cdef public long next_rank, next_user
    cdef long n_tickets
    cdef public Py_ssize_t n_placed
    cdef public dict choices, where
    cdef readonly long[::1] n_choices, choice
    cdef readonly long[:, ::1] kinds, claims
    cdef void note_choices(self, Py_ssize_t slot) except *
    cpdef void choose_partition(self, Py_ssize_t slot, long choice) noexcept
    @cython.locals(is_enough=cython.bint)
    cdef bint fits(self, Py_ssize_t slot, double now_s) noexcept
    cdef void hide(self, Py_ssize_t slot, double now_s) noexcept
    cdef void show(self, Py_ssize_t kind) noexcept
    @cython.locals(by_switches=cython.bint, total=long, left=long, some=long)
    cdef bint choose(self, Py_ssize_t slot, Ranking ranking) except -1
    cpdef bint has_nodes_left(self, Py_ssize_t slot) noexcept
    cdef bint counts_nodes(self, Py_ssize_t slot) noexcept
    cdef void count(self, Py_ssize_t slot, Py_ssize_t begin, Py_ssize_t after, int sign) noexcept
    cdef bint comes_first(self, long a, long b) noexcept
    cpdef long priority_of(self, Py_ssize_t slot) noexcept
    cdef Py_ssize_t put_in_order(self, Py_ssize_t slot, Py_ssize_t x) noexcept
    cpdef long[::1] by_urgency(self, int ordering)
    cpdef void set_in_order(self, double now_s) except *
    cpdef double changes_s(self, double now_s) noexcept
    cpdef void hold_in(self, NodeState nodes, Py_ssize_t slot, long kind, int sign) noexcept
    cpdef long place_of(self, long job) noexcept
    cpdef void hold_as(self, Py_ssize_t slot, long kind, double end_s) except *
    @cython.locals(until_s=double)
    cdef void end_waits_for_switches(self, double now_s) noexcept
    cdef Py_ssize_t row_before(self, Py_ssize_t x) noexcept
    cdef void note_placed(self, Py_ssize_t slot) noexcept
    cdef void give_rows_back(self, Py_ssize_t kind, Py_ssize_t begin, Py_ssize_t after) noexcept
    cpdef void undo(self) noexcept
    cdef void take_placed(self, Py_ssize_t n_started) noexcept
    cdef void begin_on(self, Py_ssize_t slot, Py_ssize_t row, Py_ssize_t after, double now_s, double end_s) except *
    cdef void close_ranks(self) noexcept
    cpdef void start_on(self, Py_ssize_t slot, long[:, ::1] used, long run, double now_s, double end_s) except *
