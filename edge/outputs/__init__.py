"""Outputs of the appliance: an outbox in the database, MQTT with Home Assistant discovery, webhooks."""
