"""Journals of resource managers that outlive their processes: in a file, or in a database of their own."""
