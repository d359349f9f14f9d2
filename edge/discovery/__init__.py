"""Cameras that find themselves: WS-Discovery and what ONVIF devices say of their streams."""
