"""Time-shared nodes in detail: processes, the operating system's scheduler, messages, and local users."""
