"""Simulated time for unmodified daemons, by a library in C (`native`): preloaded into a daemon, it makes
threads wait for the clock's driver, as which it is loaded here."""
