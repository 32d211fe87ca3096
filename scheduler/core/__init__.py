"""What is compiled ahead of time: each module is plain Python, and its `.pxd` file gives it the types of C."""
