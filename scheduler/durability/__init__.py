"""How a resource manager survives unreliable messages and the end of its process."""
