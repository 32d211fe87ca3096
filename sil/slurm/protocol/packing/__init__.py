"""How records are packed in each version of the protocol: single fields, records as sequences of fields."""
