"""Whose code a file may run: experiments, plans and sites name schedulers, also modules and commands."""
