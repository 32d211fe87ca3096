cimport cython
from sil.world.processes.core.shared_cpus cimport PendingEvents, SharedCpus

cdef long ARRIVES, ASLEEP, BLOCKED, CPU, DAEMON, DELIVERED, GONE, LOCAL, MAX_DIMENSIONS, PARALLEL, RUNNABLE
cdef long SEGMENT_BYTES, SOCKET_BYTES, WAKES
cdef Py_ssize_t MIN_SIZE

@cython.final
cdef class Programs(SharedCpus):
    cdef readonly object observer
    cdef public list ended, responses
    cdef public bint has_news
    cdef readonly double paging
    cdef public double[::1] over
    cdef readonly long[::1] wire_free, n_parallel
    cdef public long[::1] job, step, waiting, paged, burst, wakes, lives, sent, asked, n_arrived, period_ends
    cdef public long[:, ::1] peer, arrived
    cdef public long[::1] steps, dimensions, unfinished, computes, more, flight, later, on_wire, segments, spins
    cdef public long[::1] every_period, steps_each
    cdef readonly long n_jobs
    cdef readonly list spare_jobs
    cdef readonly dict members, lateness
    cdef readonly double[::1] thinks
    cdef readonly long[::1] interaction, n_drawn
    cdef readonly double[:, ::1] drawn
    cdef public long period, base_cost, cost_of_each
    @cython.locals(time=long, x=long, kind=long, subject=long, version=long, events=PendingEvents)
    cpdef long run(self, long until) except -1
    cpdef void deliver(self, long message, long after) except *
    cpdef void sleep(self, long p, long duration) except *
    cdef void wake(self, long p, long version) except *
    cdef void make_room_for_jobs(self) except *
    cdef void leave(self, long p) except *
    @cython.locals(j=long)
    cdef void compute(self, long p) noexcept
    cdef void communicate(self, long p) except *
    @cython.locals(j=long, n=long, k=long, d=long, arrives=long, q=long)
    cdef void send(self, long p) except *
    @cython.locals(n_dimensions=long)
    cdef bint is_answered(self, long p) noexcept
    @cython.locals(j=long, early=long)
    cdef void go_on(self, long p) except *
    @cython.locals(n=long)
    cdef void receive(self, long p, long version) except *
    cpdef void set_demand(self, long p, double demand) except *
    cdef void ask(self, long p) noexcept
    @cython.locals(n=long)
    cdef void respond(self, long p) except *
