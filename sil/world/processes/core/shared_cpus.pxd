cimport cython
from scheduler.core.heap cimport Heap
from scheduler.coscheduling.core.dynamic_priority cimport DynamicPriority

cdef long CFS, CPU, DAEMON, GONE, LATENCY, LATENCY_TASKS, MIN_GRANULARITY, NEVER, NO_PROCESS, RUNNABLE, SECOND, TICK
cdef long WAKEUP_GRANULARITY
cdef double NICE_0
cdef Py_ssize_t MIN_SIZE

@cython.final
cdef class PendingEvents:
    cdef Heap heap
    cdef readonly long pushed
    cdef long[::1] free, kind, subject, version
    cdef Py_ssize_t n_free, n_used
    cdef void make_room(self) except *
    @cython.locals(x=long)
    cdef void push(self, long time, long kind, long subject, long version) except *
    @cython.locals(x=long)
    cdef long pop(self) noexcept

cdef class SharedCpus:
    cdef readonly long policy, switch_cost, reload_cost, now, entered, deciding, spare, n_rows
    cdef readonly DynamicPriority dynamic
    cdef readonly PendingEvents events
    cdef const double[::1] weights
    cdef readonly long[::1] current, last, cached, since, version, ran, first, idle, overhead
    cdef readonly long[::1] n_reserved, by_deadline, renewal
    cdef readonly double[::1] least_virtual
    cdef public double[::1] share, virtual
    cdef public long[::1] node, kind, next, state, stopped, nice, counter, left, debt, spinning, spin_left
    cdef public long[::1] used, spun, place, every, granted, budget, due
    cpdef void make_room(self) except *
    @cython.locals(p=long)
    cpdef long add(self, long node, long kind, long nice, long state) except -1
    @cython.locals(n=long, x=long)
    cpdef void remove(self, long p) except *
    cpdef void reuse(self, long p) except *
    cpdef void set_nice(self, long p, long nice) except *
    cpdef void set_quantum_share(self, long p, double share) except *
    @cython.locals(n=long)
    cpdef void reserve(self, long p, double share, double period_s) except *
    @cython.locals(n=long)
    cpdef void stop(self, long p) except *
    cpdef void resume(self, long p) except *
    cpdef long used_by(self, long p) except -1
    @cython.locals(elapsed=long, p=long, paid=long)
    cdef void account(self, long n) noexcept
    @cython.locals(p=long, until=long)
    cdef void plan(self, long n) except *
    @cython.locals(p=long)
    cdef void look_at(self, long n, long version) except *
    cdef void complete(self, long p) except *
    cdef void dispatched(self, long p) except *
    @cython.locals(p=long)
    cdef void schedule(self, long n) except *
    @cython.locals(n=long, now_runs=long)
    cdef void enter(self, long p) except *
    cdef void reconsider(self, long n) except *
    cdef bint runs(self, long p) noexcept
    cpdef long packets(self, long p) noexcept
    @cython.locals(lead=double)
    cdef bint preempts(self, long p, long now_runs) noexcept
    @cython.locals(p=long, left=long)
    cdef long quantum_left(self, long n) noexcept
    cdef void renew(self, long p) noexcept
    @cython.locals(best=long, p=long)
    cdef long pick_by_deadline(self, long n) noexcept
    @cython.locals(quantum=long)
    cdef long base_quantum(self, long p) noexcept
    @cython.locals(ticks=long)
    cdef long goodness(self, long p) noexcept
    @cython.locals(best=long, most=long, p=long, good=long)
    cdef long pick_by_epochs(self, long n) noexcept
    cdef bint is_before(self, long n, long p, long q) noexcept
    cdef double weight(self, long p) noexcept
    cdef double rank(self, long p) noexcept
    @cython.locals(least=double, p=long)
    cdef double least(self, long n, long wakes_up) noexcept
    @cython.locals(total=double, n_ready=long, q=long, period=long)
    cdef long slice_of(self, long n, long p) noexcept
    @cython.locals(best=long, p=long, lead=double)
    cdef long pick_fair(self, long n) noexcept
