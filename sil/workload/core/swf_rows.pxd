cimport cython
cdef int MAX_DIGITS, NOT_PLAIN

cdef Py_ssize_t after_blanks(const unsigned char[::1] data, Py_ssize_t at) noexcept
@cython.locals(is_negative=cython.bint, number=long)
cpdef Py_ssize_t read_rows(const unsigned char[::1] data, const long[::1] column_of, long[::1] lines, double[:, ::1] values) except? -1
