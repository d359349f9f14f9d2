"""An RTSP server of GStreamer, run by the system's Python (python3-gi): it prints its port. Each line on standard input
changes all running streams: "size 480x272", "rate 5". Mounts: /h264, /mjpeg."""

import sys
import threading

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

SOURCE = (
    "videotestsrc is-live=true pattern=ball ! capsfilter name=form "
    "caps=video/x-raw,format=I420,width=640,height=360,framerate=15/1 ! "
)
MOUNTS = {
    "/h264": SOURCE + "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! rtph264pay name=pay0 pt=96",
    "/mjpeg": SOURCE + "jpegenc ! rtpjpegpay name=pay0 pt=26",
}


forms = []


def configured(_factory, media):
    """Remember the stream's form, which orders change."""
    forms.append(media.get_element().get_by_name("form"))


def obey(loop):
    for line in sys.stdin:
        what, value = line.split()
        width, height, rate = 640, 360, 15
        if what == "size":
            width, height = map(int, value.split("x"))
        if what == "rate":
            rate = int(value)
        caps = Gst.Caps.from_string(f"video/x-raw,format=I420,width={width},height={height},framerate={rate}/1")
        for form in forms:
            form.set_property("caps", caps)
    loop.quit()


Gst.init(None)
server = GstRtspServer.RTSPServer(service="0")
for path, launch in MOUNTS.items():
    factory = GstRtspServer.RTSPMediaFactory(shared=True)
    factory.set_launch(f"( {launch} )")
    factory.connect("media-configure", configured)
    server.get_mount_points().add_factory(path, factory)
server.attach(None)
loop = GLib.MainLoop()
sys.stdout.write(f"{server.get_bound_port()}\n")
sys.stdout.flush()
threading.Thread(target=obey, args=(loop,), daemon=True).start()
loop.run()
