"""What the rules need from the world, as protocols in the words of the domain."""
