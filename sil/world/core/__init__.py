"""The event loop of the harness for compiled queues."""
