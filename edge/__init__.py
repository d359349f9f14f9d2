"""The appliance: everything of Magpie that touches the world."""

import os

# OpenCV reads this when it is loaded. Without it a file of a few bytes from another box or an upload decodes to 3 GB.
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(2**27))
