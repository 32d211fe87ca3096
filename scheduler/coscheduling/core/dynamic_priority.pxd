cimport cython

@cython.final
cdef class DynamicPriority:
    cdef readonly long per_packet, most, stops_above
    cpdef long bonus(self, long packets) noexcept
