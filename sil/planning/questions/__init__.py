"""The questions of a plan: ranking, effects, best buy, sizing, retirement."""
