cimport cython

@cython.final
cdef class DynamicPriority:
    cdef readonly long per_packet, most
    cpdef long bonus(self, long packets) noexcept
