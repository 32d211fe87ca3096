"""Parts of the reader and the writer of the Standard Workload Format."""
