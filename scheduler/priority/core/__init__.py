"""What of priorities and limits is compiled."""
