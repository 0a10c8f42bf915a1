"""HTTP: the server, middleware, route declarations, streams and the OpenAPI document."""
