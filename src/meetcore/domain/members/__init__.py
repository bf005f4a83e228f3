"""Members of accounts and operators.

`roles`       the actions of each role
`members`     users, memberships, invitations
`sessions`    sessions and their limits
`sign_in`     one-time links, sign-up, tokens
`passkeys`    credentials of WebAuthn, and their challenges
`identities`  sign-in at an OpenID provider
`operators`   operators and the tokens of their programs
`audit`       the log of changes
`views`       records that the store reads
"""
