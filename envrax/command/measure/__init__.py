"""What steps, memory and first calls cost."""
