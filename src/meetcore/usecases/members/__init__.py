"""Use cases of people: members, operators, and how they sign in.

`members`         members, invitations, the API keys that members make, the playground
`reads`           what the pages of the dashboard read; the settings of an account
`dashboard`       what members and operators do by hand, together for the pages
`sign_up`         accounts that are opened without an operator
`sign_in_links`   links by e-mail: asked for and used
`single_sign_on`  sign-in at an OpenID provider
`passkeys`        passkeys registered, listed, removed
`sessions`        sessions found, listed, ended; sign-in by a passkey
`operators`       operators, the tokens of their programs, links for guests, views by operators
`audit`           entries of the audit log
"""
