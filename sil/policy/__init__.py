"""Learned policies as schedulers."""
