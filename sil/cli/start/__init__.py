"""What every command starts with; it imports none of them, nor any large library."""
