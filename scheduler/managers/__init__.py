"""Resource managers: queues, rounds, planned runs, starts, displacement, node allocation."""
