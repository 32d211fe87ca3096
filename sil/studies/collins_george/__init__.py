"""Case studies of Collins and George 2001."""
