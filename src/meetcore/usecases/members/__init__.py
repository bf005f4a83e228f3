"""Use cases of people: members, operators, and how they sign in."""
