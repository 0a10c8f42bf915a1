"""What an agent may do in the vault."""
