"""The agent interface: the operations of the API as tools of the Model Context Protocol.

`tools` tells what there is, `arguments` reads what is asked, `door` lets agents in over HTTP, and `bridge`
brings the service to programs that speak over standard input and output. `door` and `bridge` need the extra
`mcp`; they are imported when somebody first uses them, `door` by `lazy_app`.
"""
