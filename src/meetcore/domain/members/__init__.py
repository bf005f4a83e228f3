"""People: members of accounts and operators.

`roles`          what each role may do
`members`        users, memberships, invitations
`sessions`       who is signed in, and until when
`sign_in_links`  one-time links
`tokens`         the tokens of both
`passkeys`       credentials of WebAuthn, and their challenges
`identities`     sign-in at an OpenID provider
`sign_ups`       who may open an account, and requests for one
`operators`      who may use the console
`operator_tokens` the tokens of the operator's programs
`audit`          the log of who changed what
"""
