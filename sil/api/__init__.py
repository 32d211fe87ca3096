"""The testbed for Python: what `import sil` offers. The commands rest on the same functions."""
