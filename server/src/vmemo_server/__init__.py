"""HTTP server: `vmemo_server.app.create_app` makes the ASGI application that `vmemo serve` runs."""
