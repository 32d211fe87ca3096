"""Studies of the papers on CISNE."""
