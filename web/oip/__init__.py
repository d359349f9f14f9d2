"""The Open Inference Protocol v2 over edge.core.oip.InferenceService: `app.create_oip_app` (REST, an ASGI app),
`server.OipHttpServer` (its server), `grpc_server.OipGrpcServer`."""
