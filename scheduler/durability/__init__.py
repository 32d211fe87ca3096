"""Resource managers that survive unreliable messages and the end of their process."""
