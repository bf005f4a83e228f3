"""A Django app: accounts that hold prepaid credits, and the history of each."""
