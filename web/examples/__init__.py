"""Examples of answers for OpenAPI. A module for each one of `web.routes`, and one for errors."""
