"""The contract of the API, apart from any wire: its operations, what they take and what they answer.

What `http` and `mcp` drive alike: the table of operations, the classes of bodies and records, pages, answers
with their statuses and the form in which one is kept. How a request arrives is not known here.
"""
