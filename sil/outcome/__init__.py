"""What happened and what it means: everything here is a pure function of the trace."""
