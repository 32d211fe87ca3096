"""Schedules of a whole log that a reader zooms into: levels of detail, packed for a page that draws them."""
