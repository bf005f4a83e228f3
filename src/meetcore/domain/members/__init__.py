"""People: members of accounts and operators.

`audit`  the log of who changed what
"""
