"""A virtual camera of the package `ipycam`: its ONVIF and WS-Discovery servers on loopback, without its video.

Arguments: user name, password ("" "": no log-in is needed). Writes its port; ends with its standard input."""

import socketserver
import sys
import threading
from types import SimpleNamespace

from ipycam.config import CameraConfig
from ipycam.discovery import WSDiscoveryServer
from ipycam.http import IPCameraHTTPHandler
from ipycam.onvif import ONVIFService

username, password = sys.argv[1:3]
config = CameraConfig(local_ip="127.0.0.1", username=username, password=password)


class Handler(IPCameraHTTPHandler):
    camera = SimpleNamespace(config=config, onvif=None)

    def log_message(self, *_):
        return


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
config.onvif_port = server.server_address[1]
Handler.camera.onvif = ONVIFService(config)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
WSDiscoveryServer(Handler.camera.onvif).start()
sys.stdout.write(f"{config.onvif_port}\n")
sys.stdout.flush()
sys.stdin.read()
