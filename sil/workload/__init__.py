"""What arrives: jobs, and when."""
