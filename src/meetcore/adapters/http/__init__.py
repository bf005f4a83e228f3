"""The JSON API over HTTP, and the pages beside it.

`protocol`         HTTP/1.1 of uvicorn, bounded before a request is whole
`connections`      bounds on connections; shutdown
`client_turns`     how many requests of one client are in progress
`api_app`          `/api/v1`: from bytes to an operation, and its answer
`provider_events`  `/provider-events`: webhooks of video providers
`payment_events`   `/payment-events`: notifications of payment gateways
`downloads`        `/downloads`: recordings by signed links
`docs`             `/docs`: the documentation
`reference`        its pages of the API reference
`error_pages`      its pages of error codes
`openapi`          the OpenAPI document
`openapi_parts`    its parts that belong to no one operation
`pages`            what the pages outside the API share
"""
