"""What makes a resource manager survive unreliable messages, and the end of its process."""
