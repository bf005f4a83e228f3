"""Mails to members of accounts.

`contents`  the kinds of mails, and the content of each
`mails`     the life of one mail, its limits and its sender
`topics`    what members choose to be mailed about
`views`     records that the store reads and writes
"""
