"""Cameras in: RTSP streams, files and folders of stills, as frames that carry both times."""
