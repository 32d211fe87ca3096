"""Schedulers under test that are not built in, in processes of their own; what they answer is judged here."""
