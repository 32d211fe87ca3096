"""The arrays of compiled queues: empty ones, and larger ones. `kernels` change what is in them."""
