"""Forecasts of the starts and ends of batch jobs, and how well they do."""
