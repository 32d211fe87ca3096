"""What is remembered of the jobs of one controller: their names, their ends, and what is to be done when."""
