"""What a kernel calls at each scheduling decision, compiled."""
