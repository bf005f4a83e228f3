"""Users, their memberships and sessions, and operators."""
