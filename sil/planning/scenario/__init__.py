"""What the options of a plan are run on: a site or a log, with forecast and measures."""
