"""Examples for OpenAPI: what the answers look like. A module for each one of `web.routes`, and one for errors."""
