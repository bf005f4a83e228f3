"""The dashboard and the operators' console: pages rendered on the server, over the same use cases as the API.

Every page works without JavaScript. Nothing is loaded from elsewhere.
"""
