cimport cython

cdef unsigned long MULTIPLIER, MASK
cdef int SHIFT
cdef long NONE

cdef unsigned long folded(unsigned long bits) noexcept
@cython.locals(hash_=cython.ulong)
cdef unsigned long hashed(const unsigned long[:, ::1] rows, Py_ssize_t i) noexcept
@cython.locals(place=cython.Py_ssize_t)
cpdef long find_classes(const unsigned long[:, ::1] rows, long[::1] first_row, long[::1] class_of)
cpdef void put_in_place(const long[::1] class_of, long[::1] at, long[::1] members)
