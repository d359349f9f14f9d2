"""The site configuration: every field with its range, its default and its meaning; unknown keys fail.

The same models check the YAML file, REST bodies and stored documents, so a value is refused in one place only.
"""

from edge.settings.admission import AdmissionCamera, AdmissionRequest, ModelCandidate, PipelineAdmission
from edge.settings.base import Fraction, Identifier, QuietHours, SecretReference, Settings
from edge.settings.cameras import (
    DRAWN_INPUT,
    CameraRetraining,
    CameraSettings,
    InferenceSettings,
    LineSettings,
    MaskSettings,
    StudentSettings,
    ZoneSettings,
)
from edge.settings.clips import CameraClips, ClipSettings
from edge.settings.fleet import FLEET_PORT, FleetSettings, LendingSettings, box_address
from edge.settings.fleet_jobs import (
    EngineSettings,
    FleetJobsSettings,
    JobQueueSettings,
    JobTenantSettings,
    KubernetesEngineSettings,
    RayEngineSettings,
)
from edge.settings.machine import MachineSettings
from edge.settings.outputs import MqttSettings, OutputsSettings, QueueSettings, TopicPrefix, WebhookSettings
from edge.settings.parsing import merge, parse, without_null
from edge.settings.retraining import ConfigurationSpace, RetrainingSettings
from edge.settings.rules import DEFAULT_RULES, RuleSettings
from edge.settings.search import CameraSearch
from edge.settings.serving import GrpcSettings, HttpSettings, ModelDemand, ModelName, ServingPlanning, ServingSettings
from edge.settings.site import SiteSettings, site_schema
from edge.settings.site_file import read_site
from edge.settings.storage import DailyReportSettings, RecordingSettings, RetentionSettings
from edge.settings.tenants import SharingSettings, TenantObjectiveSettings, TenantSettings
from edge.settings.web import AccessSettings, TlsSettings, WebSettings, local_host

__all__ = [
    "DEFAULT_RULES",
    "DRAWN_INPUT",
    "FLEET_PORT",
    "AccessSettings",
    "AdmissionCamera",
    "AdmissionRequest",
    "CameraClips",
    "CameraRetraining",
    "CameraSearch",
    "CameraSettings",
    "ClipSettings",
    "ConfigurationSpace",
    "DailyReportSettings",
    "EngineSettings",
    "FleetJobsSettings",
    "FleetSettings",
    "Fraction",
    "GrpcSettings",
    "HttpSettings",
    "Identifier",
    "InferenceSettings",
    "JobQueueSettings",
    "JobTenantSettings",
    "KubernetesEngineSettings",
    "LendingSettings",
    "LineSettings",
    "MachineSettings",
    "MaskSettings",
    "ModelCandidate",
    "ModelDemand",
    "ModelName",
    "MqttSettings",
    "OutputsSettings",
    "PipelineAdmission",
    "QueueSettings",
    "QuietHours",
    "RayEngineSettings",
    "RecordingSettings",
    "RetentionSettings",
    "RetrainingSettings",
    "RuleSettings",
    "SecretReference",
    "ServingPlanning",
    "ServingSettings",
    "Settings",
    "SharingSettings",
    "SiteSettings",
    "StudentSettings",
    "TenantObjectiveSettings",
    "TenantSettings",
    "TlsSettings",
    "TopicPrefix",
    "WebSettings",
    "WebhookSettings",
    "ZoneSettings",
    "box_address",
    "local_host",
    "merge",
    "parse",
    "read_site",
    "site_schema",
    "without_null",
]
