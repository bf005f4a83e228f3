"""People: members of accounts and operators.

`roles`          what each role may do
`members`        users, memberships, invitations
`sessions`       who is signed in, and until when
`sign_in_links`  one-time links
`tokens`         the tokens of both
`operators`      who may use the console
`audit`          the log of who changed what
"""
