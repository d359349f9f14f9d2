"""Examples of the catalogue of model files."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

CATALOGUE: Final[Example] = {
    "folder": "/home/magpie/.local/share/magpie/models",
    "models": [
        {
            "name": "yolox_nano",
            "file": "yolox_nano.onnx",
            "what": "YOLOX-nano 416x416, COCO-80, 0.90 M weights: few false alarms",
            "licence": "Apache-2.0",
            "attribution": "YOLOX by Megvii (Apache-2.0)",
            "bytes": 3660092,
            "state": "here",
            "refused": False,
            "added": False,
            "teachers": ["coco_ensemble", "traffic_ensemble", "yolox_nano"],
            "students": ["yolox_nano"],
        }
    ],
    "descriptions": [
        {
            "kind": "student",
            "name": "yolox_nano",
            "path": "/opt/magpie/lib/python3.11/site-packages/configs/students/yolox_nano.yaml",
            "models": ["yolox_nano"],
            "licences": ["Apache-2.0"],
            "bytes": 3660092,
            "here": True,
            "answer_ms": 210.0,
        }
    ],
}
