"""The agent interface: the operations of the API as tools of the Model Context Protocol.

`tools` lists the tools, `arguments` reads their arguments, `confirmation` asks before credits are spent,
`resources` renders records as Markdown, `mcp_app` serves agents over HTTP, and `bridge` serves programs over
standard input and output. All but `tools` and `lazy_app` need the extra `mcp`; they are imported at first
use, `mcp_app` by `lazy_app`.
"""
