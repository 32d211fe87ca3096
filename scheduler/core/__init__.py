"""What is compiled ahead of time: modules in plain Python, to which `.pxd` files give the types of C."""
