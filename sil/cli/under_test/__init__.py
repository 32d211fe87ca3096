"""Commands about schedulers and resource managers under test."""
