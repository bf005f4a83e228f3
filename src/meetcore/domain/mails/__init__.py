"""Mails to members of accounts: what they say, how often they are tried, how many are sent.

`contents`  the kinds of mails, and what each is about
`mails`     the life of one mail
`senders`   who mails are from
"""
