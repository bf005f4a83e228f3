"""People: members, operators, how they sign in, and the log of their actions.

`members`  users, memberships, invitations, operators and their tokens
`sign_in`  links, sessions, sign-ups, passkeys
`reads`    members, operators and sessions, read
`audit`    the audit log
"""
