"""People: members, operators, and how they sign in."""
