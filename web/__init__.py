"""REST, the live socket and the page: thin transports over `edge.appliance.service.ApplianceService`."""
