/** REST's answers, made from edge/appliance/answers by `python -m web.page_types`, never by hand.
 * Times are UTC epoch seconds, shares fractions of one device, accuracies 0-1, boxes fractions of the picture. */

/** Kinds of the journal's entries by what they are about (edge/core/journal_kinds.py). */
export const JOURNAL_KINDS: Record<"alarm" | "clip" | "model" | "object" | "retraining" | "window", ReadonlySet<string>> = {
  alarm: new Set(["alarm.acknowledged", "alarm.end", "alarm.new", "alarm.update"]),
  clip: new Set(["clip.failed", "clip.made", "clip.removed"]),
  model: new Set(["model.from_sibling", "model.pinned", "model.promoted", "model.rejected", "model.rolled_back", "model.switched", "model.unpinned"]),
  object: new Set(["object.end", "object.new"]),
  retraining: new Set(["retraining.failed", "retraining.settings", "retraining.started", "retraining.stopped"]),
  window: new Set(["window.closed", "window.measured", "window.no_labels", "window.opened", "window.resumed"]),
};

/** Of an "accuracy" alarm: the window that was measured. */
export type AccuracyDetails = {
  window: number;
};

/** Where the front listens; `port` null: it does not listen yet. */
export type AddressAnswer = {
  host: string;
  port: number | null;
};

/** The effect of adding a camera, model or application. `reasons`: why it fits or not; `yields`: the losses of
 * models of lower priority, and of other tenants. `most_rate`, `rate` and `planned_rate` (with head-room) are a
 * model's or an application's, `budgets` an application's. `tenants` null: one tenant has the box. */
export type AdmissionAnswer = {
  candidate: string;
  kind: "model" | "camera" | "pipeline";
  admitted: boolean;
  reasons: AdmissionReasonAnswer[];
  yields: AdmissionReasonAnswer[];
  models: ModelEffectAnswer[];
  cameras: CameraEffectAnswer[];
  serving_share_before: number;
  serving_share_after: number;
  cameras_share_before: number;
  cameras_share_after: number;
  most_rate: number | null;
  budgets: StageBudgetAnswer[];
  rate: number | null;
  planned_rate: number | null;
  tenants: TenantAdmissionAnswer | null;
};

/** Why a candidate fits or not, or what it costs another: of a model (or the candidate), a camera or a tenant, where
 * it is about one. `numbers` depend on the code (edge.core.admission_reasons). */
export type AdmissionReasonAnswer = {
  code: "refused" | "part_of_rate" | "not_after" | "under_floor" | "floors" | "most_rate" | "max_share" | "entitlement" | "unreachable" | "fits" | "cameras_lose" | "fault" | "less_accurate" | "yields" | "tenant_loses";
  model: string | null;
  camera: string | null;
  tenant: string | null;
  numbers: Record<string, number>;
  message: string;
};

/** An alarm; `ended_utc_s` null: it goes on. `value`: the quantity that the rule checks; `object`: an
 * object's id; `details` by the rule's kind. */
export type AlarmAnswer = {
  id: number;
  rule: string;
  rule_name: string;
  kind: "object" | "accuracy" | "camera_lost" | "disk" | "roll_back" | "slo" | "tenant" | "stranger" | "crowd" | "movement" | "unusual";
  severity: "info" | "warning" | "critical";
  camera: string | null;
  phase: "new" | "update" | "end";
  began_utc_s: number;
  ended_utc_s: number | null;
  message: string;
  value: number | null;
  object: number | null;
  acknowledged_by: string | null;
  acknowledged_utc_s: number | null;
  picture: boolean;
  details: ObjectDetails | AccuracyDetails | RollBackDetails | ServedDetails | TenantDetails | UnusualDetails | MovementDetails | CrowdDetails | NoDetails;
};

/** Alarms by kind, raised since the start and active now; objects by camera; losses. */
export type AlarmCounts = {
  raised: Record<string, number>;
  active: Record<string, number>;
  held_back: number;
  objects: Record<string, number>;
  objects_now: Record<string, number>;
  lost: Record<string, number>;
};

/** The control process answers. */
export type Alive = {
  live: true;
};

/** An application: its objective, its rates in rows per second, and its stages. `longest_ms`: the largest sum of
 * budgets on a way through it; `reasons` say why the objectives are split so (empty: evenly) and which stages a less
 * accurate model answers; `accuracy`: the part of requests that all stages answer right, as far as their files say.
 * `camera` asks it as `source` says (null: clients do). */
export type ApplicationAnswer = {
  name: string;
  camera: string | null;
  source: SourceAnswer | null;
  slo_ms: number;
  accuracy: number | null;
  rate: number;
  planned_rate: number;
  longest_ms: number | null;
  stages: ApplicationStageAnswer[];
  reasons: string[];
};

/** A stage of an application. `budget_ms` of the plan in force (null: none yet) beside that of the even split;
 * `planned_ms`: the longest that a request to its model takes under the plan (null: it has no gpu-let), on gpu-lets of
 * `share` devices together (those that models share in time count whole); `rate` in rows per second, `planned_rate`
 * with head-room;
 * `latency_ms`: p50, p99 of the last second with answers; counts since the start: requests of the application that
 * reached it, those that its model answered, those answered later than its budget's part of the time left, and rows;
 * `fan_out`: rows per row of a request in the last second (mean, p99), beside the expected one. `model` answers now,
 * with `accuracy` if its file says one; `options` are the models that may, the most accurate first (none: no
 * other). `queue`: the number of the model's queue that it asks. */
export type ApplicationStageAnswer = {
  name: string;
  model: string;
  queue: number;
  accuracy: number | null;
  options: StageOptionAnswer[];
  after: string[];
  budget_ms: number | null;
  even_ms: number;
  planned_ms: number | null;
  rate: number;
  planned_rate: number;
  share: number;
  latency_ms: number[];
  requests: number;
  answered: number;
  over: number;
  rows: number;
  fan_out: number;
  fan_out_p99: number;
  expected_fan_out: number;
};

/** A box that was asked, and what came of it: "answered"; "silent" (no answer in time); "not_known" (its version
 * does not know the question); "refused"; "too_long"; "failed"; "not_asked" (more boxes than are asked at once).
 * `age_s`: how long ago it last answered (null: never since this box's agent began). `page`: its page's address
 * (empty: not known here). */
export type AskedBoxAnswer = {
  box: string;
  outcome: "answered" | "silent" | "not_known" | "refused" | "too_long" | "failed" | "not_asked";
  age_s: number | null;
  page: string;
};

/** The value of an object's attribute: a label with its `score` (0-1), or a number (`score` null); from so many
 * `answers` of the application. */
export type AttributeAnswer = {
  value: string | number;
  score: number | null;
  answers: number;
};

/** A change: by whom and from where (null: a command on the machine, or the appliance itself); `value`: the
 * value that was kept, or null. */
export type AuditAnswer = {
  id: number;
  utc_s: number;
  by: string;
  from: string | null;
  subject: string;
  action: string;
  value: AuditValue;
};

/** The settings, camera or rule of a change as they were then, in the form of that version. */
export type AuditValue = unknown;

/** One model's part of a gpu-let's cycle: at most `batch` requests of its `queue`, which take `batch_ms`. */
export type BatchAnswer = {
  name: string;
  batch: number;
  batch_ms: number | null;
  queue: number;
};

/** A work for this box's `camera` that `box` does, of a `kind` as in LentHereAnswer; `fraction` of it is done (0-1;
 * of trials it is not known). */
export type BorrowedAnswer = {
  box: string;
  camera: string;
  phase: "asked" | "fetching" | "running" | "done" | "failed";
  fraction: number;
  kind: "retraining" | "profiles" | "labels";
};

/** The rows of a box for a user of another one; the lists that were not asked for are empty. `more`: there are older
 * rows, with ids below `last`. `page`: its page's address as its settings name it (empty: they do not); else
 * `page_port` on the box's machine (null: its page is reached on the machine only), `page_tls`: by https. */
export type BoxFoundAnswer = {
  page: string;
  page_port: number | null;
  page_tls: boolean;
  more: boolean;
  last: number | null;
  cameras: CameraOnWall[];
  alarms: AlarmAnswer[];
  objects: ObjectAnswer[];
  events: JournalEntry[];
  audit: AuditAnswer[];
  overlaps: CameraOverlapAnswer[];
  now: BoxNowAnswer | null;
};

/** Groups of cameras over boxes. `share` false: this box shares no pictures, and is in none. Since its start:
 * retrainings here that pictures of other boxes taught, students of other boxes' groups that came into force here
 * (`taken`) or not (`refused`), and what failed, by fault. */
export type BoxGroupsAnswer = {
  share: boolean;
  boxes: SharingBoxAnswer[];
  cameras: GroupCameraAnswer[];
  trained: number;
  taken: number;
  refused: number;
  failures: Record<string, number>;
};

/** Whether the appliance does its work. */
export type BoxHealth = {
  live: boolean;
  ready: boolean;
  reasons: Reason[];
  uptime_s: number;
  version: string;
};

/** The box's losses since the start, all cameras together; `labels` and `alarms` by kind; `clips` that could not be
 * made.
 * No losses are `labels_waiting`, pictures that the golden model has not come to, and the labels and seconds of its
 * work in `labels`. */
export type BoxLosses = {
  labels: Record<string, number>;
  journal: number;
  labels_waiting: number;
  live_pictures: number;
  alarms: Record<string, number>;
  clips: number;
};

/** A box as it reports itself. `units`: cores or SMs of its `device`, of which `shares` are parts; they are kept as
 * `kind` and `enforced` say. `ready`: it does its work (`/readyz`). */
export type BoxNowAnswer = {
  version: string;
  uptime_s: number;
  ready: boolean;
  device: string;
  units: number;
  kind: "mps" | "mps+green" | "cgroup" | "cgroup+coop" | "coop";
  enforced: "reserve" | "cap" | "coop";
  shares: DeviceShareAnswer[];
  lending: FleetLendingAnswer;
};

/** A bucket of time. `watched`: the part of it (0-1) in which answers came; `answers_per_s` in that part. In one
 * that was not watched nothing is known: no count there is no zero. */
export type BucketAnswer = {
  start_utc_s: number;
  watched: number;
  answers_per_s: number;
  counts: CountAnswer[];
};

/** The objects that came in a time of the day, by class. */
export type BucketOfDay = {
  from_utc_s: number;
  to_utc_s: number;
  objects: Record<string, number>;
};

/** The budget of a window per camera: labels, trials, device seconds of profiling and retraining; `ready_s`: when
 * a camera has labels and profiles; `retrainings` in the window, all cameras together; `value`: expected gain, 0-1;
 * `looks`: older frames to keep are picked by what a student sees in them (else by their labels). */
export type BudgetAnswer = {
  golden_share: number;
  labels: number;
  trials: number;
  profiling_s: number;
  ready_s: number;
  retraining_s: number;
  retrainings: number;
  value: number;
  known: boolean;
  late: boolean;
  reason: string;
  looks: boolean;
};

/** The accuracies (0-1) of the window that was measured last; null: not measured. `realised`: of the answers as they
 * were given; `frozen`: of the first student, left alone; `download`: of the published detector that the student began
 * as, left alone, looking where the student in force does, `download_whole`: the same at the whole picture. */
export type CameraAccuracy = {
  realised: number | null;
  frozen: number | null;
  download: number | null;
  download_whole: number | null;
};

/** A camera with its settings and its state. */
export type CameraAnswer = {
  id: string;
  settings: CameraSettings;
  state: StateOfCamera;
};

/** A forecast accuracy beside the mean that came; `held`: inside its interval. */
export type CameraCame = {
  camera: string;
  forecast: number;
  came: number;
  held: boolean;
};

/** A camera's own settings of clips. */
export type CameraClips = {
  /** keep the last seconds of its video in memory */
  enabled: boolean;
  /** empty: the site's */
  before_s: number | null;
  /** empty: the site's */
  after_s: number | null;
};

/** The connection to a camera. `retry_in_s`: until the next try; `stalls`: times without a picture for the stall
 * time; `attempts_hanging`: abandoned tries whose threads have not ended yet. */
export type CameraConnection = {
  retry_in_s: number;
  connects: number;
  stalls: number;
  attempts_hanging: number;
};

/** The effect of an admission on a camera's predicted accuracy. */
export type CameraEffectAnswer = {
  camera: string;
  before: number | null;
  after: number | null;
  loss: number;
};

/** A camera's mean accuracy now (null: it is not there yet) and with the change; `box` 2: it is on the second
 * box. `unchanged`: at the same time without the change, for students go on learning (null: it is not there yet, or
 * the forecast is of an earlier version). */
export type CameraForecastAnswer = {
  camera: string;
  now: number | null;
  then: EstimateAnswer;
  box: number;
  unchanged: number | null;
};

/** The answers of a camera's student, with its share of the device and lambda. `inference_ms`: the mean time of
 * one. */
export type CameraInference = {
  share: number;
  lambda: LambdaAnswer | null;
  answers: number;
  stale_answers: number;
  answers_per_s: number;
  inference_ms: number;
};

/** The version in force of a camera's student. `origin`: how it came about; `window`: whose pictures trained it;
 * `frozen_version`: the first one, left alone. */
export type CameraModel = {
  student: string;
  version: string;
  origin: "first" | "retrained" | "sibling" | "download";
  window: number | null;
  frozen_version: string;
};

/** A camera as its box reports it. */
export type CameraOnWall = {
  camera: string;
  name: string;
  state: "connecting" | "live" | "stalled" | "reconnecting" | "refused" | "stopped";
  fault: "unreachable" | "refused" | "not_found" | "silent" | "frozen" | "ended" | "damaged" | "unsupported" | null;
  accuracy: number | null;
  fps: number;
  answers_per_s: number;
};

/** Two boxes answered a camera, this one until `end_utc_s`: events of that time may be there twice. */
export type CameraOverlapAnswer = {
  camera: string;
  start_utc_s: number;
  end_utc_s: number;
};

/** A camera's own settings of retraining. */
export type CameraRetraining = {
  enabled: boolean;
  every_kth_window: number;
  /** labelled frames per window; empty: the site's */
  label_budget: number | null;
};

/** One camera and its student. */
export type CameraSettings = {
  /** lower-case name */
  id: string;
  name: string;
  /** rtsp://, rtsps://, or a file or folder path */
  url: string;
  transport: "tcp" | "udp";
  username: string;
  /** env:NAME, file:/path[#key] or secret:NAME; the password itself is never stored */
  password_from: string;
  stall_timeout_s: number;
  max_fps: number | null;
  /** for a folder of stills */
  seconds_per_picture: number;
  enabled: boolean;
  task: "detection" | "classification";
  classes: string[];
  /** camera class -> teacher classes; a class not named maps to its own name */
  class_map: Record<string, string[]>;
  student: StudentSettings;
  inference: InferenceSettings;
  retraining: CameraRetraining;
  /** named parts of the picture, for rules and counts */
  zones: ZoneSettings[];
  /** lines that objects are counted at */
  lines: LineSettings[];
  clips: CameraClips;
  /** parts of the picture that are blacked out before anybody sees them */
  masks: MaskSettings[];
};

/** A camera in one window: accuracies as measured, `promised` by the first plan with profiles and `predicted` by all
 * plans; `steps` of predicted accuracy: [start, end, accuracy]. */
export type CameraStory = {
  camera: string;
  realised: number | null;
  frozen: number | null;
  download: number | null;
  frames_labelled: number;
  promised: number | null;
  predicted: number | null;
  steps: [number, number, number][];
  options: OptionAnswer[];
  jobs: JobStory[];
  losses: Record<string, number>;
  labelling_delay_s: number | null;
  profiling_delay_s: number | null;
};

/** The pictures of a camera: `fps` a second, `delay_s` old when they are decoded, `width` and `height` in pixels.
 * `freezes`: times with the same picture for the stall time. */
export type CameraStream = {
  fps: number;
  delay_s: number;
  width: number;
  height: number;
  codec: string;
  frames_decoded: number;
  frames_damaged: number;
  frames_replaced: number;
  packets_dropped: number;
  freezes: number;
};

/** The result of a try to connect. `picture` is a JPEG in base64. */
export type CameraTest = {
  ok: boolean;
  width: number;
  height: number;
  fps: number;
  codec: string;
  seconds: number;
  fault: "unreachable" | "refused" | "not_found" | "silent" | "frozen" | "ended" | "damaged" | "unsupported" | null;
  message: string;
  picture: string | null;
};

/** Forecasts, the newest first. A forecast needs `needed` closed and measured windows in a row of the box as it is;
 * there are `windows` among the newest 48. `working` null: none is being made; `failed` null: the newest was made. */
export type CapacityAnswer = {
  needed: number;
  windows: number;
  working: ReckonedNow | null;
  failed: FailedForecast | null;
  forecasts: ForecastAnswer[];
};

/** A change that is asked about (edge.core.capacity.BoxChange), also in words. `camera` and `words` are null
 * for a user of some cameras. */
export type CapacityChangeAnswer = {
  kind: "camera" | "frame_rate" | "window" | "device" | "box";
  factor: number;
  camera: string | null;
  words: string | null;
};

/** A note about an assumption or a gap of a forecast, by code and in words. `of_all`: a second sentence, about all
 * cameras together (null: there is none, and for a user of some cameras). */
export type CapacityNoteAnswer = {
  code: "new_camera" | "few_windows" | "rate_above" | "rate_unknown" | "not_measured" | "left_out" | "second_box" | "device" | "budget_unknown" | "no_room" | "no_latencies" | "stand_ins" | "past" | "no_past" | "trend";
  camera: string | null;
  model: string | null;
  message: string;
  of_all: string | null;
};

/** The result of a change that was made before window `window`, over `windows` windows. `error`: mean of all
 * cameras' absolute errors (null for a user of some). */
export type CapacityOutcomeAnswer = {
  window: number;
  windows: number;
  error: number | null;
  cameras: CameraCame[];
  models: ModelCame[];
};

/** One check of this machine and site. */
export type CheckAnswer = {
  name: string;
  outcome: "good" | "warning" | "bad";
  said: string;
  hint: string;
};

/** The problems of settings, by field; empty: none. */
export type CheckedSettings = {
  problems: ProblemAnswer[];
};

/** The window length that the box would choose. */
export type ChoiceAnswer = {
  window_s: number;
  budget: BudgetAnswer;
  reason: string;
};

/** A clip of a camera around `at_utc_s`, asked for from `from_utc_s` to `to_utc_s`. `asked_by` empty: a rule did;
 * `alarms`: ids of those that it shows. `video` null: it is not kept (yet); `failure` null: it did not fail. */
export type ClipAnswer = {
  id: number;
  camera: string;
  state: "making" | "kept" | "failed";
  asked_by: string;
  at_utc_s: number;
  from_utc_s: number;
  to_utc_s: number;
  alarms: number[];
  video: ClipVideoAnswer | null;
  failure: ClipFailureAnswer | null;
};

/** The clip that shows a moment of a camera: one that is kept or in the making (`clip` is its id), one that can be
 * made now by POST /clips, or none, with the reason. `held_s`: seconds of the camera's video in memory. */
export type ClipAroundAnswer = {
  camera: string;
  at_utc_s: number;
  state: "kept" | "making" | "can_be_made" | "none";
  clip: number | null;
  reason: "in_future" | "too_old" | "not_kept" | "camera_off" | "camera_removed" | "camera_away" | "no_video" | null;
  held_s: number | null;
};

/** An object that the student saw; `score` 0-1. */
export type ClipBox = {
  class: string;
  score: number;
  box: [number, number, number, number];
};

/** The boxes that belong to a clip; `begins_utc_s`: when its first picture was taken. */
export type ClipBoxes = {
  clip: number;
  camera: string;
  begins_utc_s: number;
  answers: ClipMoment[];
};

/** Clips since the start: made, shared by another alarm, failed by reason, and not begun (`not_taken`: no camera, no
 * database, a full disk); `bytes` of all that are kept. */
export type ClipCounts = {
  made: number;
  shared: number;
  failed: Record<string, number>;
  not_taken: number;
  bytes: number;
};

/** Why nothing of a clip is kept. `had_from_utc_s` to `had_to_utc_s`: the time that could have been had (null:
 * none). */
export type ClipFailureAnswer = {
  fault: "not_in_ring" | "codec" | "disk_full" | "not_written" | "too_many" | "camera_off" | "no_answer" | "interrupted" | "masks_changed";
  had_from_utc_s: number | null;
  had_to_utc_s: number | null;
};

/** The student's answer about the picture that the clip shows `at_s` seconds after its first. */
export type ClipMoment = {
  at_s: number;
  model_version: string;
  boxes: ClipBox[];
};

/** The video of a clip: its first picture was taken at `begins_utc_s`, it is `seconds` long, `width` and `height` in
 * pixels. `missing_before_s` and `missing_after_s` were asked for and could not be had; `end`: why it ends where it
 * does. `masked`: coded anew, with the camera's masks blacked out. */
export type ClipVideoAnswer = {
  begins_utc_s: number;
  seconds: number;
  codec: "h264" | "hevc";
  width: number;
  height: number;
  bytes: number;
  sha256: string;
  missing_before_s: number;
  missing_after_s: number;
  end: "whole" | "camera_gone" | "coding_changed" | "cut_short";
  masked: boolean;
};

/** An object in a picture: `bbox` is left, top, width, height in pixels. */
export type CocoAnnotation = {
  id: number;
  image_id: number;
  category_id: number;
  bbox: [number, number, number, number];
  area: number;
  iscrowd: number;
};

/** A class. */
export type CocoCategory = {
  id: number;
  name: string;
  supercategory: string;
};

/** People's labels as a COCO detection file. */
export type CocoFile = {
  info: CocoInfo;
  images: CocoPicture[];
  annotations: CocoAnnotation[];
  categories: CocoCategory[];
  magpie: CocoOrigin;
};

/** About a COCO file. */
export type CocoInfo = {
  description: string;
};

/** The answers that a COCO file was made from, so that they can be imported as they were. */
export type CocoOrigin = {
  camera: string;
  answers: StoredAnswer[];
};

/** A picture in a COCO file; sizes in pixels. */
export type CocoPicture = {
  id: number;
  file_name: string;
  width: number;
  height: number;
  magpie: CocoPictureOrigin;
};

/** The labelled frame of a picture in a COCO file. `complete`: all of its objects are there; `size_known` false: its
 * size is taken as 1000 x 1000. */
export type CocoPictureOrigin = {
  window: number;
  frame: number;
  complete: boolean;
  size_known: boolean;
};

/** A bucket and the earlier one. `compared`: both were watched for nine tenths; only then do their numbers count in
 * the totals. */
export type ComparedBucket = {
  start_utc_s: number;
  before_utc_s: number;
  watched: number;
  watched_before: number;
  compared: boolean;
  counts: ComparedCount[];
};

/** Objects of one class at one place now and before, as counted: of the compared buckets, or of one bucket. */
export type ComparedCount = {
  kind: "line" | "movement" | "zone";
  name: string;
  way: string;
  class: string;
  objects: number;
  before: number;
};

/** The plan that was made beside the one that was asked for. */
export type ComparedPlans = {
  window: number;
  length_s: number;
  made: ComparedSide;
  asked: ComparedSide;
  configs: Record<string, string>;
};

/** One policy's plan. `cameras` and `lowest`: predicted accuracy by camera, on average and at its lowest; `reasons`
 * by camera ("": for all). */
export type ComparedSide = {
  policy: string;
  objective: number;
  timeline: StretchAnswer[];
  cameras: Record<string, number>;
  lowest: Record<string, number>;
  reasons: Record<string, string[]>;
  faults: FaultAnswer[];
};

/** A camera's buckets beside those of an earlier time; `compared`: the part of the time (0-1) that was watched in
 * both, of which the totals are. Places and classes that were counted in either time have a total. */
export type ComparisonAnswer = {
  camera: string;
  step: "minute" | "hour" | "day";
  from_utc_s: number;
  to_utc_s: number;
  before_from_utc_s: number;
  compared: number;
  totals: ComparedCount[];
  buckets: ComparedBucket[];
};

/** A complaint: something that the operator must know, in words. */
export type Complaint = {
  code: string;
  message: string;
  camera: string | null;
  utc_s: number;
};

/** A retraining configuration (edge.core.configs.RetrainingConfig). `last_layer_width` 0: the student's own. */
export type ConfigAnswer = {
  epochs: number;
  batch_size: number;
  layers: "head" | "last_stage" | "all";
  data_fraction: number;
  learning_rate: number;
  last_layer_width: number;
};

/** The space of retraining configurations gamma: the product of the lists (thesis section 2.3.1). */
export type ConfigurationSpace = {
  epochs: number[];
  batch_sizes: number[];
  layers: ("head" | "last_stage" | "all")[];
  data_fractions: number[];
  learning_rates: number[];
  last_layer_widths: number[];
};

/** A count corrected by what the teacher's labels say, with the interval that holds the true count with 90 %. */
export type CorrectedAnswer = {
  value: number;
  low: number;
  high: number;
};

/** The sum of one kind of work in a window, for a camera (null: for all together). */
export type CostAnswer = {
  window: number;
  camera: string | null;
  kind: "labelling" | "profiling" | "retraining" | "inference" | "planning";
  device_seconds: number;
  wall_s: number;
};

/** Objects of one class at one place in one bucket. `way`: "forward" or "backward" over a line, the last zone of a
 * movement; `seconds` and `standing_s`: of a zone, summed over objects; `most`: in a zone at once. `corrected` null:
 * too few labels, nothing is known. */
export type CountAnswer = {
  kind: "line" | "movement" | "zone";
  name: string;
  way: string;
  class: string;
  objects: number;
  corrected: CorrectedAnswer | null;
  seconds: number;
  standing_s: number;
  most: number;
};

/** Objects of one class counted at one place since the appliance started. */
export type CountedSinceStart = {
  camera: string;
  kind: "line" | "movement" | "zone";
  name: string;
  way: string;
  class: string;
  objects: number;
};

/** Objects counted since the start; `lost`: records that could not be kept; the last minute of each camera. */
export type CountingAnswer = {
  counted: CountedSinceStart[];
  lost: number;
  minutes: MinuteAnswer[];
};

/** The buckets of a camera from `from_utc_s` to before `to_utc_s`, all of them, and the sums over all buckets;
 * `formats` in which this box writes them as a file. */
export type CountsAnswer = {
  camera: string;
  step: "minute" | "hour" | "day";
  from_utc_s: number;
  to_utc_s: number;
  watched: number;
  totals: CountAnswer[];
  buckets: BucketAnswer[];
  formats: ("csv" | "parquet")[];
};

/** Of a "crowd" alarm: the zone ("": the picture), and the objects in it when the alarm began. */
export type CrowdDetails = {
  zone: string;
  objects: number;
};

/** The performance expected with a share at the present load, and its bounds (about 90 %). */
export type CurvePoint = {
  share: number;
  performance: number;
  low: number;
  high: number;
};

/** A recent report: the performance that was measured with the share given, under a load (requests per second). */
export type CurveReport = {
  utc_s: number;
  share: number;
  performance: number;
  load: number | null;
};

/** A message that was given up after so many tries. `message` is the id that it was sent with. */
export type DeadLetterAnswer = {
  id: number;
  destination: string;
  camera: string | null;
  kind: string;
  message: string;
  utc_s: number;
  died_utc_s: number;
  tries: number;
  reason: string;
  body: MessageBody;
};

/** A plan in words: in force from `at_s` to `until_s` seconds after the window's start, made in `decision_s`.
 * `recorded`: reasons of which an earlier version kept the sentences only; they may name any camera. */
export type DecisionAnswer = {
  plan: number;
  at_s: number;
  until_s: number;
  cause: string;
  cause_code: "camera_measured" | "camera_pinned" | "camera_unpinned" | "camera_rolled_back" | "camera_from_sibling" | "camera_settings" | "prepared" | "first_window" | "restarted" | "restarted_without_plan" | "capacity_changed" | "camera_joined" | "camera_left" | "profiles_late" | "work_corrected" | "progress_unexpected" | "retraining_late" | "retraining_completed" | "retraining_failed" | "lenders_offered" | "lender_failed" | "group_over" | "recorded";
  cause_camera: string | null;
  policy: string;
  objective: number;
  decision_s: number;
  whole: string[];
  cameras: Record<string, string[]>;
  recorded: string[];
  faults: FaultAnswer[];
};

/** A published detector's input (edge.core.detectors.InputSpec). */
export type DetectorInput = {
  width: number;
  height: number;
  fit: string;
  colour: string;
  layout: string;
  type: string;
  scale: number;
  mean: number[];
  std: number[];
  pad: number;
  name: string;
  size_name: string;
  size_order: string;
};

/** How a published detector's outputs are read (edge.core.detectors.OutputSpec). */
export type DetectorOutput = {
  kind: string;
  strides: number[];
  box_format: string;
  box_units: string;
  objectness: boolean;
  labels: string;
  boxes: string;
  scores: string;
  cell_centre: number;
  first_class: number;
  anchors: [number, number][][];
};

/** A device that shares can be given of. `units`: cores, or SMs once probed. */
export type DeviceAnswer = {
  kind: "cpu" | "gpu" | "mig";
  id: string;
  name: string;
  units: number | null;
  memory_bytes: number;
  gpu: GpuAnswer | null;
  in_use: boolean;
};

/** A device with the best share kind that it enforces; `shares` null: none, and `error` says why. */
export type DeviceReport = {
  device: string;
  kind: "cpu" | "gpu" | "mig";
  name: string;
  units: number | null;
  memory_bytes: number;
  shares: ShareKindAnswer | null;
  error: string | null;
  tried: TriedShareKind[];
};

/** The share (0-1) of a box's device that a part of it has. `camera` null: of no camera, or of all cameras together
 * that the user may not see. */
export type DeviceShareAnswer = {
  part: "inference" | "retraining" | "golden" | "profiling" | "lent" | "serving" | "front" | "control";
  camera: string | null;
  share: number;
};

/** A labelled picture about which student and teacher differ. The answer was `answer_age_s` old; sizes in pixels. */
export type DisagreementAnswer = {
  window: number;
  frame: number;
  utc_s: number;
  model_version: string;
  answer_age_s: number;
  width: number;
  height: number;
  student: JudgedObject[];
  teacher: JudgedObject[];
  kinds: ("right" | "extra" | "missed" | "class" | "unjudged")[];
};

/** Bytes on disk. */
export type DiskSizes = {
  pictures: number;
  models: number;
  database: number;
};

/** The disk of the data folder. */
export type DiskSpace = {
  free_bytes: number;
  total_bytes: number;
};

/** The share kinds that this machine can enforce, and why not more. */
export type Doctor = {
  can_run: boolean;
  checks: CheckAnswer[];
  devices: DeviceReport[];
  notes: string[];
};

/** A value with an interval that holds it with probability about 0.8. */
export type EstimateAnswer = {
  value: number;
  low: number;
  high: number;
};

/** A process that runs models (name: version); `batches` and `busy_s` of the last second. */
export type ExecutorAnswer = {
  id: string;
  state: string;
  share: number;
  models: Record<string, string>;
  gpulet: GpuletAnswer | null;
  connected: boolean;
  batches: number;
  busy_s: number;
  pid: number | null;
};

/** A window for people: shares over time, options with expectations, and results.
 * `configs`: retraining configurations in words; `policies`: those that a comparison can name. */
export type ExplainedWindow = {
  window: WindowAnswer;
  timeline: StretchAnswer[];
  decisions: DecisionAnswer[];
  cameras: CameraStory[];
  configs: Record<string, string>;
  usage: UsedShare[];
  costs: CostAnswer[];
  policies: string[];
};

/** Why the newest forecast could not be made. `message` is null for a user of some cameras. */
export type FailedForecast = {
  change: CapacityChangeAnswer;
  message: string | null;
};

/** A rule that a plan breaks for a camera (null: an earlier version kept the words only). */
export type FaultAnswer = {
  code: "floor_unreachable" | "under_floor" | "recorded";
  camera: string | null;
  message: string;
};

/** Something the operator should know. */
export type FindingAnswer = {
  kind: "teacher_worse" | "people_contradict";
  camera: string;
  window: number;
  value: number;
  message: string;
};

/** An alarm of `box`. `also_on`: boxes that raised it, too, while two boxes answered its camera. */
export type FleetAlarmAnswer = {
  box: string;
  also_on: string[];
  alarm: AlarmAnswer;
};

/** A page of the alarms of all boxes, newest first. `next`: the cursor of the next page; null: there is none. */
export type FleetAlarmsAnswer = {
  boxes: AskedBoxAnswer[];
  rows: FleetAlarmAnswer[];
  next: string | null;
};

/** The fleet as this box, `me`, knows it. `joined` false: the box is in none (`me` empty: the site file has no
 * section `fleet`). `agent` false: its agent does not run, and the rest is as it reported last, at
 * `reported_utc_s` (null: never). `head` null: none is known; `mandate`: whether this box as the head hears enough
 * boxes to decide (null: it is not the head). `refused` counts connections and messages that this box refused
 * since its agent began. */
export type FleetAnswer = {
  joined: boolean;
  agent: boolean;
  me: string;
  reported_utc_s: number | null;
  head: string | null;
  mandate: boolean | null;
  boxes: FleetBoxAnswer[];
  cameras: FleetCameraAnswer[];
  overlaps: CameraOverlapAnswer[];
  refused: Record<string, number>;
  lending: FleetLendingAnswer;
};

/** A page of the audits of all boxes, newest first. `next` as of alarms. */
export type FleetAuditAnswer = {
  boxes: AskedBoxAnswer[];
  rows: FleetChangeAnswer[];
  next: string | null;
};

/** A box of the fleet. `status` from the head's last answer (null: there was none yet); `cameras`: how many it owns.
 * `decides`: it may become the head. `other_version`: it and this box do not understand each other, as their versions
 * are too far apart. */
export type FleetBoxAnswer = {
  name: string;
  address: string;
  status: "open" | "silent" | "lost" | null;
  head: boolean;
  decides: boolean;
  drained: boolean;
  zones: string[];
  cameras: number;
  other_version: boolean;
};

/** How `box` is. */
export type FleetBoxNowAnswer = {
  box: string;
  now: BoxNowAnswer;
};

/** How the boxes are that answered. `me`: this box. */
export type FleetBoxesAnswer = {
  me: string;
  boxes: AskedBoxAnswer[];
  rows: FleetBoxNowAnswer[];
};

/** A camera of the fleet and the box that answers it (`owner`); until it does (`answered`), `previous` goes on.
 * `unplaced`: why no box answers it. `waiting`: why it cannot leave its drained box yet. `cannot`: why this box could
 * not start it. */
export type FleetCameraAnswer = {
  camera: string;
  owner: string | null;
  previous: string | null;
  answered: boolean;
  zone: string;
  unplaced: "no_box" | "no_zone" | "drained" | "full" | "refused" | null;
  waiting: "no_box" | "no_zone" | "drained" | "full" | "refused" | null;
  cannot: string;
};

/** A change that `box` recorded. */
export type FleetChangeAnswer = {
  box: string;
  change: AuditAnswer;
};

/** The head's engine; `why` it failed or what it waits for (empty: neither); `boxes` that it has now. */
export type FleetEngineAnswer = {
  kind: "local" | "ray" | "kubernetes";
  phase: "off" | "starting" | "up" | "failed";
  why: string;
  boxes: string[];
};

/** An entry of the journal of `box`. */
export type FleetEventAnswer = {
  box: string;
  entry: JournalEntry;
};

/** A page of the journals of all boxes, newest first. `next` as of alarms. */
export type FleetEventsAnswer = {
  boxes: AskedBoxAnswer[];
  rows: FleetEventAnswer[];
  next: string | null;
};

/** A job. `tasks` of it there are, of which `done` have ended; `task_states` has a row for each that runs, ended or
 * failed, the first 100 of them. `why`: why a task waits, or why the job is refused. `by` submitted it, `withdrawn_by`
 * (empty: no user) cancelled it. */
export type FleetJobAnswer = {
  id: string;
  program: string;
  phase: "waiting" | "running" | "stopping" | "ended" | "withdrawn" | "refused";
  tenant: string | null;
  queue: string | null;
  priority: number;
  tasks: number;
  running: number;
  done: number;
  task_states: JobTaskAnswer[];
  why: FleetReasonAnswer | null;
  by: string;
  withdrawn_by: string;
  came_utc_s: number;
  over_utc_s: number | null;
};

/** The jobs that the `head` keeps, in the order of arrival. `damaged`: the file of its jobs could not be read when
 * its agent began, and was put aside. `resources`: the boxes' amounts, at most 1,000; unbounded ones are left out, and
 * while the engine does not run ephemeral ones, too. */
export type FleetJobsAnswer = {
  head: string;
  engine: FleetEngineAnswer;
  jobs: FleetJobAnswer[];
  tenants: FleetTenantAnswer[];
  elsewhere: JobsElsewhereAnswer[];
  damaged: boolean;
  resources: FleetResourceAnswer[];
};

/** The lending of this box. `offered_share` (0-1) of its device may be borrowed now, at most `most_share`;
 * `here` it does for others, `there` others do for it. Since its start: `lent` and `borrowed` retrainings that ended
 * well, profiles, and labelled pictures; their work in seconds of this box's device; borrowed ones that failed, by
 * fault. `groups`: those over boxes. */
export type FleetLendingAnswer = {
  lend: boolean;
  borrow: boolean;
  most_share: number;
  offered_share: number;
  here: LentHereAnswer[];
  there: BorrowedAnswer[];
  lent: number;
  borrowed: number;
  lent_profiles: number;
  borrowed_profiles: number;
  lent_labels: number;
  borrowed_labels: number;
  lent_device_s: number;
  borrowed_device_s: number;
  failures: Record<string, number>;
  groups: BoxGroupsAnswer;
};

/** An object that `box` followed. */
export type FleetObjectAnswer = {
  box: string;
  found: ObjectAnswer;
};

/** A page of the objects of all boxes, newest first. `next` as of alarms. */
export type FleetObjectsAnswer = {
  boxes: AskedBoxAnswer[];
  rows: FleetObjectAnswer[];
  next: string | null;
};

/** The order is under way: `cameras` that it moves. Of "invite": the join code, shown only here, the address of the
 * agent that takes it, and its hours. */
export type FleetOrderAnswer = {
  kind: "drain" | "undrain" | "move" | "leave" | "revoke" | "invite";
  box: string;
  cameras: string[];
  code: string | null;
  address: string | null;
  hours: number | null;
};

/** Why a job waits or is refused: a code, and the same in words. */
export type FleetReasonAnswer = {
  code: "no_such_resource" | "no_box_in_zone" | "too_large" | "too_many_at_once" | "queue_too_small" | "target_refused" | "target_withdrawn" | "circle" | "unknown_queue" | "unknown_tenant" | "signal" | "near" | "no_offer" | "turn" | "slots" | "full" | "away" | "kept_free" | "fencing" | "head";
  words: string;
};

/** A named amount that jobs may ask for, of `box` (empty: of the fleet as a whole): `used` of `capacity`. */
export type FleetResourceAnswer = {
  box: string;
  name: string;
  capacity: number;
  used: number;
};

/** A tenant of jobs: of `resource`, the scarcest one (empty: no job asks for any), it wants `wanted` for its open
 * tasks, its fair share is `share`, and its tasks hold `used`. */
export type FleetTenantAnswer = {
  tenant: string;
  resource: string;
  wanted: number;
  share: number;
  used: number;
};

/** The cameras of all boxes. `me`: this box. */
export type FleetWallAnswer = {
  me: string;
  boxes: AskedBoxAnswer[];
  cameras: FleetWallCamera[];
};

/** A camera of the fleet and the box that reported it. `state` null: the box did not answer, or (`box` null) no box
 * has the camera; name and box are then as the fleet's list has them. */
export type FleetWallCamera = {
  camera: string;
  name: string;
  box: string | null;
  state: "connecting" | "live" | "stalled" | "reconnecting" | "refused" | "stopped" | null;
  fault: "unreachable" | "refused" | "not_found" | "silent" | "frozen" | "ended" | "damaged" | "unsupported" | null;
  accuracy: number | null;
  fps: number;
  answers_per_s: number;
};

/** A forecast, from `windows` windows up to `last_window`. `share_now` and `share_then`: devices of this box's
 * cameras and their retraining. `outcome` null: the change was not made, or too few windows are over since. */
export type ForecastAnswer = {
  id: number;
  at_utc_s: number;
  asked_by: string | null;
  change: CapacityChangeAnswer;
  windows: number;
  last_window: number;
  share_now: number;
  share_then: number;
  cameras: CameraForecastAnswer[];
  models: ModelForecastAnswer[];
  notes: CapacityNoteAnswer[];
  outcome: CapacityOutcomeAnswer | null;
};

/** A device that answered. `fault` says why nothing is known of its streams; `elsewhere`: the other host that it
 * names, which was not asked; `streams_lost`: streams beyond the limit, or that could not be read. */
export type FoundCamera = {
  address: string;
  name: string;
  hardware: string;
  fault: "unreachable" | "unknown_name" | "tls" | "silent" | "not_asked" | "refused" | "elsewhere" | "redirected" | "too_large" | "unreadable" | "no_profiles" | null;
  elsewhere: string;
  streams: FoundStream[];
  streams_lost: number;
};

/** Devices by address. Of the answers that are not among them `outside` came from another network than asked,
 * `unreadable` could not be read, `over` are beyond the limits. */
export type FoundCameras = {
  cameras: FoundCamera[];
  need: NeedAnswer;
  outside: number;
  unreadable: number;
  over: number;
};

/** An object that was found; `camera` is its own. `lines`: those that it crossed, in the order of time. */
export type FoundObject = {
  camera: string;
  object: ObjectAnswer;
  lines: LineCrossed[];
};

/** A page of a search, the newest first. `next`: ask again with it as `after` (null: there are no older ones); then
 * everything that came after `looked_back_to_utc_s` was looked at. A page may be short, or empty, and have a next
 * one. */
export type FoundObjects = {
  found: FoundObject[];
  next: string | null;
  looked_back_to_utc_s: number | null;
};

/** A stream that a device offers. `codec` "": it has no encoder; `width`, `height` in pixels; `fps` and
 * `bitrate_kbps` at most, 0 where the device does not say; `url` without credentials, "" where there is none that can
 * be used. `verdict`: whether it is proposed for a camera, or why not. */
export type FoundStream = {
  token: string;
  name: string;
  codec: string;
  width: number;
  height: number;
  fps: number;
  bitrate_kbps: number;
  url: string;
  verdict: "proposed" | "nearest" | "dearer" | "no_encoder" | "no_size" | "codec" | "too_small" | "too_slow" | "no_address" | "elsewhere" | "password_in_address" | "refused" | "silent";
};

/** The front of the served models. `turned_away`: messages and streams by gRPC for which there was no room, or that
 * came too slowly. */
export type FrontAnswer = {
  up: boolean;
  http: AddressAnswer;
  grpc: AddressAnswer;
  turned_away: number;
};

/** The value that was sent for a field, of any kind. */
export type GivenValue = unknown;

/** A GPU as its driver reports it. `sms` null: not probed. */
export type GpuAnswer = {
  id: string;
  name: string;
  memory_bytes: number;
  driver: string;
  compute_capability: string;
  compute_mode: string;
  sms: number | null;
  mig: boolean;
};

/** A partition of a device and what runs in it. */
export type GpuletAnswer = {
  device: number;
  share: number;
  duty_cycle_ms: number;
  models: BatchAnswer[];
};

/** A `camera` of `box` in a group over boxes that this box is in; the groups are numbered. The box `trainer` trains
 * it. `here`: its labelled pictures are on this box. */
export type GroupCameraAnswer = {
  group: number;
  trainer: string;
  box: string;
  camera: string;
  here: boolean;
};

/** An hour of the day begins: as the box's clock shows it, and how far that is ahead of UTC. */
export type HourOfDay = {
  at_utc_s: number;
  label: string;
  ahead_s: number;
};

/** The result of a label file: pictures read, answers added, pictures that were not complete, of no labelled frame,
 * and answers that were there already. */
export type ImportedLabels = {
  pictures: number;
  answers: number;
  incomplete: number;
  unknown: number;
  there: number;
};

/** The space of inference configurations lambda = (frame rate, resolution, region, shape). */
export type InferenceSettings = {
  frame_rates: number[];
  resolutions: number[];
  /** detections below it are not answered; empty: chosen on past labels */
  score_threshold: number | null;
  /** the part of the picture that is looked at: auto (learned from labels), off (all of it), or left,top,right,bottom in fractions, e.g. 0,0.2,1,1; published detectors only */
  region: string;
  /** proportions of the input: the camera's, or those that the model was published with */
  shape: "camera" | "model";
};

/** The prediction for partitions side by side; `measured` false: none was measured. */
export type InterferenceAnswer = {
  measured: boolean;
  pairs: PairAnswer[];
};

/** A retraining. `fraction` (0-1) of its work was done; `attempt` counts its starts from 1. */
export type JobAnswer = {
  id: string;
  window: number;
  camera: string;
  config: string;
  share: number;
  state: "running" | "completed" | "failed" | "stopped" | "interrupted";
  attempt: number;
  started_utc_s: number;
  ended_utc_s: number | null;
  fraction: number;
  device_seconds: number;
  accuracy_before: number | null;
  accuracy_after: number | null;
  promoted: boolean;
  reason: string;
  model_version: string | null;
};

/** The micro-profiler's expectation of a retraining: the accuracy after it, and its device seconds. */
export type JobExpected = {
  accuracy: EstimateAnswer;
  device_seconds: EstimateAnswer;
};

/** A retraining that runs. `fraction` of its work is done; `total_device_s` and `device_seconds` are device
 * seconds, expected and spent; `held_out`: accuracy on held-out frames so far. `retraining`: the configuration with
 * the id `config`; `box`: another one that does it (empty: this one). */
export type JobNow = {
  job: string;
  camera: string;
  config: string;
  retraining: ConfigAnswer;
  window: number;
  share: number;
  started_utc_s: number;
  predicted_accuracy: number | null;
  total_device_s: number;
  fraction: number;
  held_out: number | null;
  device_seconds: number;
  box: string;
};

/** A retraining as recorded (`job`), in words, with its expectation (null: there was none); `started_s` and
 * `ended_s` after the window's start. */
export type JobStory = {
  job: JobAnswer;
  words: string;
  outcome: "running" | "promoted" | "refused" | "stopped" | "failed" | "interrupted";
  started_s: number;
  ended_s: number | null;
  expected: JobExpected | null;
};

/** A task of a job. `box`: where it runs or, if `done`, ran; null: it waits. `failures`: how often its program
 * raised in a row, `why` the last time; it is tried again. `answer`: the program's (null: none yet, or larger than
 * 4,096 bytes). */
export type JobTaskAnswer = {
  task: number;
  box: string | null;
  done: boolean;
  failures: number;
  why: string;
  answer: ProgramAnswer;
};

/** Open jobs that a box keeps since it was the head: they do not run until it is the head again. */
export type JobsElsewhereAnswer = {
  box: string;
  open: number;
};

/** Data of a journal entry: docs/journal.md names the keys of each kind. */
export type JournalData = Record<string, unknown>;

/** An entry. `id` is a number; of an entry that is sent while it is being written, "live-N" or null. `data` has the
 * keys that docs/journal.md names for its kind. */
export type JournalEntry = {
  id: number | string | null;
  utc_s: number | null;
  kind: string;
  camera: string | null;
  window: number | null;
  data: JournalData;
};

export type JsonSchema = {
  "$ref"?: string;
  "$defs"?: Record<string, JsonSchema>;
  type?: string;
  enum?: SchemaValue[];
  const?: SchemaValue;
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | boolean;
  required?: string[];
  description?: string;
  default?: SchemaValue;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
};

/** An object of student or teacher. `verdict`: "extra": only the student saw it, "missed": only the teacher did,
 * "class": they call it differently. */
export type JudgedObject = {
  box: [number, number, number, number];
  class: string;
  score: number;
  verdict: "right" | "extra" | "missed" | "class" | "unjudged";
};

/** One shipped teacher or student. `models`: names in the catalogue; `here`: every file is; `licences` of them,
 * each once; `path` of the description, as a site names it. `answer_ms`: CPU milliseconds of an answer on one core of
 * this box, where it was measured. */
export type KnownDescription = {
  kind: "teacher" | "student";
  name: string;
  path: string;
  models: string[];
  licences: string[];
  bytes: number;
  here: boolean;
  answer_ms: number | null;
};

/** The models folder, the models that are known or were added, and the shipped teachers and students. */
export type KnownFiles = {
  folder: string;
  models: KnownModel[];
  descriptions: KnownDescription[];
};

/** One model of the catalogue, or one that was added. `bytes` is the size here, or the one expected. `refused`:
 * the licence is one that has to be accepted and was not. */
export type KnownModel = {
  name: string;
  file: string;
  what: string;
  licence: string;
  attribution: string;
  bytes: number;
  state: "here" | "missing" | "partial" | "changed";
  refused: boolean;
  added: boolean;
  teachers: string[];
  students: string[];
};

/** How a student looks: answers per second, the scale (0-1] of its input, the part of the picture, and whether its
 * input has the camera's proportions or the model's. */
export type LambdaAnswer = {
  frame_rate: number;
  resolution: number;
  region: [number, number, number, number];
  shape: string;
};

/** The learned state of a tenant: reports since the last change, changes noticed, when the last report came; values
 * that were not usable; why, and when, what was learned was last forgotten. */
export type LearnedAnswer = {
  reports: number;
  changes: number;
  last_utc_s: number | null;
  age_s: number | null;
  dropped: number;
  forgotten: "members" | "versions" | "table" | "device" | "objective" | "damaged" | null;
  forgotten_utc_s: number | null;
};

/** The learning budget of this box (edge.core.learning.LearningReport). `fixed`: the parts that settings
 * fix; `facts`: measured costs by name, null: not measured; `bias` and `mean_error`: predicted - realised accuracy. */
export type LearningAnswer = {
  window_s: number;
  cameras: number;
  budget: BudgetAnswer;
  golden_share: number;
  fixed: Record<string, boolean>;
  facts: Record<string, MeasuredCost | null>;
  choice: ChoiceAnswer;
  bias: number;
  mean_error: number;
  camera_windows: number;
  late_labels_used: number;
  unprofiled_retrainings: number;
  handed_in: number;
};

/** A work that this box does for `box`, of a `kind`: a retraining of its `camera`, trials of its configurations
 * ("profiles") or labels for its pictures, at `share` of its device; `fraction` of it is done (0-1; of trials it is
 * not known). */
export type LentHereAnswer = {
  box: string;
  camera: string;
  share: number;
  fraction: number;
  kind: "retraining" | "profiles" | "labels";
};

/** A line that an object crossed, and when. */
export type LineCrossed = {
  line: string;
  way: "forward" | "backward";
  at_utc_s: number;
};

/** A line on a camera's picture that objects are counted at. */
export type LineSettings = {
  /** lower-case name */
  name: string;
  /** [x, y] in fractions of the picture */
  start: [number, number];
  /** [x, y]; crossing to the right, as seen from start to end, is forward */
  end: [number, number];
  /** only objects of these classes count; empty: all */
  classes: string[];
};

/** Records that are still in memory, newest first; `forgotten` gave way to newer ones. `level`: the least that is
 * logged at all. */
export type LogAnswer = {
  records: LogLine[];
  capacity: number;
  forgotten: number;
  level: string;
};

/** A log record of the control process; null: not known. `error` is a traceback. */
export type LogLine = {
  id: number;
  utc_s: number;
  level: string;
  logger: string;
  message: string;
  camera: string | null;
  window: number | null;
  cause: string | null;
  event: string | null;
  worker: string | null;
  error: string | null;
};

/** A user who logged in. `csrf` goes into the header x-csrf-token of every change. */
export type LoggedInAnswer = {
  name: string;
  role: "viewer" | "operator" | "admin";
  cameras: string[] | null;
  tenants: string[] | null;
  csrf: string;
  expires_utc_s: number;
};

/** A counter of something lost, in words; `since` the appliance or a worker was started. */
export type Loss = {
  code: string;
  camera: string | null;
  subject: string;
  count: number;
  words: string;
  since: "appliance" | "worker";
};

/** An object that a person marked. */
export type MarkedObject = {
  box: [number, number, number, number] | null;
  class: string;
};

/** A part of a camera's picture that must not be seen. */
export type MaskSettings = {
  /** lower-case name */
  name: string;
  /** [x, y] in fractions of the picture; closed by itself */
  polygon: [number, number][];
};

/** The caller. `kind` "open": this appliance needs no log-in. */
export type Me = {
  name: string;
  role: "viewer" | "operator" | "admin";
  cameras: string[] | null;
  tenants: string[] | null;
  kind: "session" | "token" | "open";
  csrf: string | null;
  expires_utc_s: number | null;
  must_change: boolean;
};

/** Accuracy on so many labelled frames and objects (edge.core.labels.Accuracy). Of detectors `value` is F1 at IoU
 * 0.5; null where an earlier version did not measure it. */
export type MeasuredAccuracy = {
  value: number;
  frames: number | null;
  objects: number | null;
  f1_iou30: number | null;
  f1_iou50: number | null;
  map50: number | null;
};

/** A mean of `samples` measurements with its spread. */
export type MeasuredCost = {
  value: number;
  spread: number;
  samples: number;
};

/** A message as it was sent by MQTT or to a webhook: docs/outputs.md has each kind's shape. */
export type MessageBody = Record<string, unknown>;

/** Everything that is counted and measured. `expected_accuracy`: a model's held-out accuracy when it was promoted;
 * `live_pictures`: encoded since the start; `records_unreadable` of the database by kind; `serving` null:
 * nothing is served; `statistics`: the inference protocol's of each served version, null where none came;
 * `truth`: the newest estimate; `fleet_jobs` null: this box is not the head of a fleet. */
export type MetricsSnapshot = {
  health: BoxHealth;
  overview: Overview;
  expected_accuracy: Record<string, number | null>;
  counts: TallyAnswer;
  live_pictures: Record<string, number>;
  records_unreadable: Record<string, number>;
  disk: DiskSpace;
  serving: Serving | null;
  statistics: ModelStatistics[] | null;
  outputs: OutputCounts[];
  alarms: AlarmCounts;
  counting: CountingAnswer;
  clips: ClipCounts;
  truth: Record<string, WindowTruth>;
  tenants: TenantsAnswer;
  lending: FleetLendingAnswer;
  fleet_jobs: FleetJobsAnswer | null;
};

/** The last minute of a camera that is over; `watched` 0: nothing is known of it. */
export type MinuteAnswer = {
  camera: string;
  start_utc_s: number;
  watched: number;
  places: PlaceMinuteAnswer[];
};

/** A forecast latency in ms beside the one that came. */
export type ModelCame = {
  model: string;
  forecast_ms: number;
  came_ms: number;
  held: boolean;
};

/** The demand on one served model; its model.yaml gives the rest. */
export type ModelDemand = {
  /** requests per second to expect now; traffic corrects it */
  rate: number | null;
  /** requests per second that are always planned for */
  min_rate: number | null;
  /** each request is answered within it */
  slo_ms: number | null;
  /** lower yields first */
  priority: number | null;
};

/** The effect of an admission on a model: its worst latency and the part of its rate that is served. */
export type ModelEffectAnswer = {
  model: string;
  slo_ms: number;
  rate: number;
  priority: number;
  before_ms: number | null;
  after_ms: number | null;
  before_part: number;
  after_part: number;
};

/** A served model's latency in ms now and with the change (null: not served), and the part of its rate that is
 * served, 0-1. */
export type ModelForecastAnswer = {
  model: string;
  slo_ms: number;
  now_ms: number | null;
  then_ms: EstimateAnswer | null;
  now_part: number;
  then_part: number;
};

/** Why a model or application does not do more. `numbers` depend on the code (edge.core.model_reasons). */
export type ModelReasonAnswer = {
  code: "failed" | "little_share" | "not_measurable" | "unlike" | "not_measured" | "no_room" | "failing" | "unknown_camera" | "camera_off" | "unknown_class";
  numbers: Record<string, number>;
  message: string;
};

/** Statistics of one served version, as the Open Inference Protocol's front reported them. */
export type ModelStatistics = Record<string, unknown>;

/** Of a "movement" alarm: the object's class, and the zones that it came from and went to. */
export type MovementDetails = {
  class: string;
  from_zone: string;
  to_zone: string;
};

/** The broker's settings and state. */
export type MqttAnswer = {
  enabled: boolean;
  /** name or address */
  host: string;
  /** usually 1883, with TLS 8883 */
  port: number;
  tls: boolean;
  /** certificates to trust (PEM); empty: the system's */
  ca_file: string;
  username: string;
  /** env:NAME, file:/path[#key] or secret:NAME */
  password_from: string;
  /** empty: magpie-SITE, in a fleet magpie-SITE-BOX */
  client_id: string;
  /** first levels of every topic; in a fleet magpie stands for magpie/BOX */
  prefix: string;
  keepalive_s: number;
  /** send events of objects, not only alarms */
  objects: boolean;
  /** send each minute's counts of cameras that have lines or zones */
  counts: boolean;
  /** tell Home Assistant what there is */
  discovery: boolean;
  /** Home Assistant's own setting of that name */
  discovery_prefix: string;
  queue: QueueSettings;
  state: OutputState;
};

/** The picture that is wanted, `fps` times a second: it need not be enlarged to fill an input of `width` x `height`
 * pixels; not `fixed`: an input of its own proportions, at no more pixels. `source`: whose input it is: the student's
 * in the camera's settings, the site's student's, or the usual one of our own architectures; `student` is the
 * published detector, "" for an own architecture; `unread` says why one that was named could not be read. */
export type NeedAnswer = {
  width: number;
  height: number;
  fps: number;
  fixed: boolean;
  source: "camera" | "site" | "usual";
  student: string;
  unread: string;
};

/** A token that was made; the token itself is shown only here. */
export type NewTokenAnswer = {
  id: string;
  name: string;
  user: string;
  role: "viewer" | "operator" | "admin";
  cameras: string[] | null;
  prefix: string;
  created_utc_s: number;
  expires_utc_s: number | null;
  last_used_utc_s: number | null;
  token: string;
};

/** Of a "camera_lost", "disk" or "stranger" alarm. */
export type NoDetails = Record<string, never>;

/** An object that was followed; `ended_utc_s` null: it is there. `dwell_s`: longest stay in a zone or in view.
 * `attributes` by name, from applications that its camera feeds. */
export type ObjectAnswer = {
  id: number;
  camera: string;
  class: string;
  began_utc_s: number;
  ended_utc_s: number | null;
  score: number;
  box: [number, number, number, number];
  zones: string[];
  zone_dwell_s: Record<string, number>;
  dwell_s: number;
  attributes: Record<string, AttributeAnswer>;
  picture: boolean;
};

/** Of an "object" alarm: the object's class, the zones of the rule that it is in, and its score. */
export type ObjectDetails = {
  class: string;
  zones: string[];
  score: number;
};

/** Health for callers who are not logged in. */
export type OpenHealth = {
  live: boolean;
  ready: boolean;
  reasons: ReasonCode[];
};

/** A configuration: the micro-profiler's expectation, and its result. */
export type OptionAnswer = {
  config: string;
  words: string;
  start_accuracy: number;
  end_accuracy: EstimateAnswer;
  device_seconds: EstimateAnswer;
  gain_per_device_second: number | null;
  chosen: boolean;
  verdict: string;
};

/** A time in which the camera was not watched; `to_utc_s` null: it goes on. `fault` of its stream, where one is
 * known. */
export type OutageAnswer = {
  from_utc_s: number;
  to_utc_s: number | null;
  cause: "box_off" | "removed" | "stopped" | "worker_lost" | "refused" | "stalled" | "reconnecting" | "connecting" | "starting" | "not_watched";
  fault: "unreachable" | "refused" | "not_found" | "silent" | "frozen" | "ended" | "damaged" | "unsupported" | null;
};

/** Counts of a destination's messages since the start. `up` null: it is switched off. */
export type OutputCounts = {
  destination: string;
  up: boolean | null;
  waiting: number;
  waiting_bytes: number;
  sent: number;
  lost: number;
  lost_by: Record<string, number>;
  dead: number;
};

/** Counts of a destination's messages since the start. `down_s`: away for so long; `lost_by` cause. */
export type OutputState = {
  connected: boolean;
  message: string;
  down_s: number | null;
  waiting: number;
  waiting_bytes: number;
  sent: number;
  lost: number;
  lost_by: Record<string, number>;
  dead: number;
};

/** The result of a test message; `took_s` null: no answer came. */
export type OutputTest = {
  ok: boolean;
  message: string;
  took_s: number | null;
};

/** Broker and webhooks. `unwritten`: messages that wait for the database, and `message` why. */
export type OutputsAnswer = {
  mqtt: MqttAnswer | null;
  webhooks: WebhookAnswer[];
  unwritten: number;
  message: string;
};

/** Window, shares, cameras, running retrainings, complaints, losses now. `serving`: null where nothing is served. */
export type Overview = {
  site: string;
  utc_s: number;
  window: WindowNow;
  policy: string;
  plan: PlanNow | null;
  device: ShareKindAnswer;
  shares: Record<string, SharesOfCamera>;
  golden_share: number;
  profiling_share: number;
  lent_share: number;
  control_share: number;
  serving: ServingNow | null;
  usage: UsageNow[];
  cameras: OverviewCamera[];
  jobs: JobNow[];
  complaints: Complaint[];
  workers: WorkerNow[];
  losses: BoxLosses;
};

/** A camera with its name and its state. */
export type OverviewCamera = {
  id: string;
  name: string;
  state: StateOfCamera;
};

/** How much longer a batch is predicted to take `beside` another gpu-let; null: beside all of them. */
export type PairAnswer = {
  gpulet: string;
  model: string;
  batch: number;
  beside: string | null;
  factor: number;
};

/** The header of exactly one live picture: boxes with `scores` (0-1) and `labels` (indices of `classes`). */
export type PictureHeader = {
  camera: string;
  number: number;
  utc_s: number;
  width: number;
  height: number;
  model_version: string;
  stale: boolean;
  classes: string[];
  boxes: [number, number, number, number][];
  scores: number[];
  labels: number[];
  delay_s: number;
  state: "connecting" | "live" | "stalled" | "reconnecting" | "refused" | "stopped";
};

/** Objects of all classes at one place in one minute; `most`: in a zone at once. */
export type PlaceMinuteAnswer = {
  kind: "line" | "movement" | "zone";
  name: string;
  way: string;
  objects: number;
  corrected: CorrectedAnswer | null;
  most: number;
};

/** A plan with its problem, as the files "retrain-infer-plan/1" and "retrain-infer-window/1", and `basis`, what else
 * the plan was made from (null: an earlier version did not keep it). All three are of all cameras together, and null
 * for a user of some. `cause` in words, with its code and the camera that it is about. */
export type PlanAnswer = {
  id: number;
  window: number;
  at_utc_s: number;
  cause: string;
  cause_code: "camera_measured" | "camera_pinned" | "camera_unpinned" | "camera_rolled_back" | "camera_from_sibling" | "camera_settings" | "prepared" | "first_window" | "restarted" | "restarted_without_plan" | "capacity_changed" | "camera_joined" | "camera_left" | "profiles_late" | "work_corrected" | "progress_unexpected" | "retraining_late" | "retraining_completed" | "retraining_failed" | "lenders_offered" | "lender_failed" | "group_over" | "recorded";
  cause_camera: string | null;
  policy: string;
  objective: number;
  problem: WindowProblemFile | null;
  plan: WindowPlanFile | null;
  basis: PlanBasisFile | null;
};

/** `policy` planned with `caps` where `current` had been in force for `age_s` seconds (None, 0: no plan was).
 * `asked` is what the policy was asked where that differs from the recorded problem: a retraining for a group of
 * cameras counts what all of them gain. `budgets` are the tenants'. */
export type PlanBasisFile = {
  policy: string;
  /** The promises of a share kind on one device, as its probe showed (never more). */
  caps: { kind: "mps" | "mps+green" | "cgroup" | "cgroup+coop" | "coop"; device: string; enforced: "reserve" | "cap" | "coop"; resize: "live" | "respawn"; min_share: number; step: number | null; units: number; oversubscribe: boolean; memory_limit: boolean; fault_domain: "worker" | "device"; evidence?: string };
  current?: { format: "retrain-infer-plan/1"; policy: string; problem: string; objective: number; segments: ({ start_s: number; streams: Record<string, { inference_share: number; retraining_share?: number; retrain_config?: string | null }> })[]; decision_seconds?: number; reasons?: Record<string, string>; faults?: string[]; reason_values?: Record<string, ({ code: "retrain" | "go_on" | "lent" | "not_worth_it" | "no_gain" | "no_share" | "inference" | "none_retrained" | "side_by_side" | "one_after_another" | "granted" | "least_kept" | "recorded"; camera?: string | null; name?: string; numbers?: Record<string, number>; sentence?: string })[]>; fault_values?: ({ code: "floor_unreachable" | "under_floor" | "recorded"; camera: string | null; floor?: number; accuracy?: number; share?: number; sentence?: string })[] } | null;
  age_s?: number;
  asked?: { format: "retrain-infer-window/1"; name?: string; num_gpus: number; window_s: number; streams: ({ id: string; start_accuracy: number; inference_profile: { kind: "linear" | "subsampling"; max_gpu: number; subsampling?: number[]; factor?: number[]; name?: string; points?: ({ config: { frame_rate: number; resolution?: number; region?: [number, number, number, number]; shape?: "camera" | "model" }; share: number; factor: number })[] }; retrain_configs?: ({ id: string; end_accuracy: number; gpu_seconds: number; curve?: [number, number][]; throughput?: [number, number][]; end_accuracy_low?: number | null; teaches?: number; members?: number; [key: string]: unknown })[]; model?: string; running?: string | null; work_done?: number; promise?: { measured: number; correction: { offset?: number; gain?: number; pull?: number; usual?: number | null; decay_per_s?: number; reliability?: number } } | null; arrival?: { at_s: number; accuracy: number; box?: string } | null })[]; delta?: number; a_min?: number | null; label_delay_s?: number; seed?: number | null; share_step?: number | null; carry_s?: number } | null;
  budgets?: { tenant: string; share: number; cameras: string[] }[];
};

/** The plan in force: its objective, and its reasons by camera ("": for all of them). */
export type PlanNow = {
  objective: number;
  reasons: Record<string, string>;
};

/** At most `batch` requests of a model's `queue` in each cycle. */
export type PlannedBatch = {
  name: string;
  batch: number;
  queue: number;
};

/** A partition as planned. */
export type PlannedGpulet = {
  device: number;
  share: number;
  duty_cycle_ms: number;
  models: PlannedBatch[];
};

/** A problem of one field. */
export type ProblemAnswer = {
  path: string;
  given: GivenValue;
  allowed: string;
};

/** The micro-profile of one configuration. */
export type ProfileAnswer = {
  id: number;
  window: number;
  camera: string;
  config: string;
  at_utc_s: number;
  profile: RetrainingProfileAnswer;
};

/** The answer of a program of the fleet: each program has its own (docs/fleet.md). */
export type ProgramAnswer = unknown;

/** A question about one candidate ("box") or the whole picture ("missed"). `others`: boxes of other candidates. */
export type QuestionAnswer = {
  window: number;
  frame: number;
  utc_s: number;
  kind: "box" | "missed";
  candidate: number | null;
  class: string | null;
  student_box: [number, number, number, number] | null;
  teacher_box: [number, number, number, number] | null;
  others: [number, number, number, number][];
  width: number;
  height: number;
  probability: number;
  stratum: string;
};

/** The next questions in the order of asking; `window` null: nothing can be asked now. */
export type QuestionsAnswer = {
  camera: string;
  window: number | null;
  classes: string[];
  questions: QuestionAnswer[];
};

/** One of a model's two queues as planned: its budget, its rate in rows per second, the share of its gpu-lets
 * together, and the stages that ask it (users of some cameras are not shown them). Queue 0 is also that of clients'
 * own requests. */
export type QueueAnswer = {
  number: number;
  budget_ms: number;
  rate: number;
  share: number;
  stages: QueueStageAnswer[];
};

/** How much may wait for an output that cannot be reached; beyond, the oldest is lost, and counted. */
export type QueueSettings = {
  /** messages */
  max_messages: number;
  /** all of them together, in MB */
  max_mb: number;
  /** hours since they were made */
  max_age_h: number;
};

/** A stage of an application. */
export type QueueStageAnswer = {
  application: string;
  stage: string;
};

/** Why the box is not ready, or what is wrong with it all the same. */
export type Reason = {
  code: string;
  message: string;
  camera: string | null;
};

/** A reason for callers who are not logged in. */
export type ReasonCode = {
  code: string;
};

/** The forecast that is being made: of `change`, since `since_utc_s`. */
export type ReckonedNow = {
  change: CapacityChangeAnswer;
  since_utc_s: number;
};

/** Retraining settings as they were in force (edge.settings.RetrainingSettings); null: not set, or not known to the
 * version that kept them. `golden_share` is the share that labelling had. */
export type RecordedSettings = {
  enabled: boolean | null;
  window_s: number | null;
  policy: string | null;
  a_min: number | null;
  delta: number | null;
  space: RecordedSpace | null;
  published_space: RecordedSpace | null;
  label_budget: number | null;
  held_out: number | null;
  golden_share: number | null;
  evaluation_share: number | null;
  profiling_budget: number | null;
  exemplars: number | null;
  groups: boolean | null;
  gate_tolerance: number | null;
  rollback_margin: number | null;
  quiet_hours: string[] | null;
};

/** A space of retraining configurations, as it was in force (edge.settings.ConfigurationSpace). */
export type RecordedSpace = {
  epochs: number[] | null;
  batch_sizes: number[] | null;
  layers: string[] | null;
  data_fractions: number[] | null;
  learning_rates: number[] | null;
  last_layer_widths: number[] | null;
};

/** The bounded sample on disk. */
export type RecordingSettings = {
  /** per camera and window */
  max_frames: number;
  /** per camera, all windows together */
  max_mb: number;
  keep_windows: number;
};

/** Requests since the start, by what became of them. */
export type RequestTotals = {
  arrived: number;
  answered: number;
  late: number;
  dropped: number;
  rejected: number;
  failed: number;
  cancelled: number;
};

/** Shares that are reserved for Magpie's own work. */
export type ReservedShares = {
  control: number;
  golden: number;
  evaluation: number;
  front: number;
};

/** Records that retention deleted since the start, by kind; bytes kept, and over the limits (null before it ran). */
export type Retained = {
  deleted: Record<string, number>;
  bytes_kept: number | null;
  bytes_over: number | null;
};

/** How long history is kept: every limit holds, the oldest goes first. */
export type RetentionSettings = {
  /** pictures, events, windows, models that are not needed */
  days: number;
  /** counts by hour and day; by minute they go by `days` */
  count_days: number;
  /** pictures and models together */
  max_gb: number;
  /** journal entries */
  max_events: number;
  /** journal entries, in MB */
  max_events_mb: number;
  /** records of objects, and as many of alarms */
  max_objects: number;
  /** pictures of objects and alarms, in MB */
  max_object_pictures_mb: number;
};

/** The settings in force, and those from the next boundary on. */
export type RetrainingAnswer = {
  current: RetrainingSettings;
  next: RetrainingSettings;
  next_boundary_utc_s: number;
};

/** How a student is retrained (edge.core.configs.RetrainingConfig); `last_layer_width` 0: as it is. */
export type RetrainingConfigAnswer = {
  epochs: number;
  batch_size: number;
  layers: string;
  data_fraction: number;
  learning_rate: number;
  last_layer_width: number;
};

/** A retraining of the camera in a window; `ended_utc_s` null: it goes on. `promoted`: its model took over. The
 * accuracies (0-1) were measured before and after, null: they were not. */
export type RetrainingOfDay = {
  window: number;
  state: "running" | "completed" | "failed" | "stopped" | "interrupted";
  started_utc_s: number;
  ended_utc_s: number | null;
  promoted: boolean;
  accuracy_before: number | null;
  accuracy_after: number | null;
  model_version: string | null;
};

/** Expected gain and cost of a retraining (edge.core.profiles.RetrainingProfile). `curve`: accuracy by
 * device seconds; `throughput`: speed by share; `profiled` false: no trial ran, past windows taught it. */
export type RetrainingProfileAnswer = {
  config: RetrainingConfigAnswer;
  start_accuracy: number;
  end_accuracy: EstimateAnswer;
  device_seconds: EstimateAnswer;
  curve: [number, number][];
  throughput: [number, number][];
  profiled: boolean;
};

/** Retraining windows: changeable by REST at run time, in force from the next boundary. */
export type RetrainingSettings = {
  enabled: boolean;
  /** length of a retraining window in seconds */
  window_s: number;
  policy: "relay" | "exact" | "thief" | "uniform" | "uniform-heavy" | "no-retraining" | "fixed-resources" | "fixed-config";
  /** floor of the momentary inference accuracy */
  a_min: number | null;
  /** quantum of shares */
  delta: number;
  space: ConfigurationSpace;
  /** the same for students that began as a published detector; learning rates are relative */
  published_space: ConfigurationSpace;
  /** frames per camera and window that the teacher labels; empty: finds itself */
  label_budget: number | null;
  /** latest part of the labelled frames, kept for the gate */
  held_out: number;
  /** share of the device that labelling may use; empty: finds itself */
  golden_share: number | null;
  /** share for measuring windows and exemplars; empty: finds itself */
  evaluation_share: number | null;
  /** part of a window's device time for profiling; empty: finds itself */
  profiling_budget: number | null;
  /** older frames kept per camera so that nothing is forgotten */
  exemplars: number;
  /** several cameras may be retrained as one, where a plan gains by it */
  groups: boolean;
  /** a candidate may be so much worse and still pass */
  gate_tolerance: number;
  /** live accuracy so far under its parent rolls back */
  rollback_margin: number;
  /** HH:MM-HH:MM in the box's time zone: nothing is retrained then */
  quiet_hours: string[];
};

/** A camera's ring of coded video: its contents now, and since its worker started the changes of coding in it, the
 * times that old video gave way to the limit of bytes, and the packets that it could not take. */
export type RingAnswer = {
  codec: string;
  seconds: number;
  bytes: number;
  begun_anew: number;
  shortened: number;
  packets_lost: number;
};

/** Of a "roll_back" alarm: the version that is in force again. */
export type RollBackDetails = {
  version: string;
};

/** More of a camera's window; null: not measured, or by an earlier version not kept. `quality`: indicators of the
 * labels (golden.quality); `class_counts`: labelled objects by class; `download`: accuracy of the published detector
 * that the student began as, looking where the student in force does, `download_whole`: the same at the whole picture;
 * `current_fresh`: that of the student in force in shadow, beside answers as old as those that it gave. */
export type RowDetails = {
  quality: Record<string, number> | null;
  class_counts: Record<string, number> | null;
  download: MeasuredAccuracy | null;
  download_whole: MeasuredAccuracy | null;
  promise: WindowPrediction | null;
  current_fresh: MeasuredAccuracy | null;
};

/** When to raise an alarm: changeable by REST at run time, in force at once. */
export type RuleSettings = {
  /** lower-case name */
  id: string;
  /** for people; empty: the id */
  name: string;
  kind: "object" | "accuracy" | "camera_lost" | "disk" | "roll_back" | "slo" | "tenant" | "stranger" | "crowd" | "movement" | "unusual";
  enabled: boolean;
  /** empty: all */
  cameras: string[];
  /** object, crowd, movement, unusual: of these classes; empty: all */
  classes: string[];
  /** object, crowd: in one of these zones; empty: anywhere in the picture; movement: to one of them */
  zones: string[];
  /** movement: from one of these zones; empty: from any */
  from_zones: string[];
  /** unusual: over these lines; empty: all */
  lines: string[];
  /** crowd: more objects than that at once (required) */
  above: number | null;
  /** unusual: so many spreads away from what is usual (empty: 4) */
  factor: number | null;
  /** object: there for so long */
  dwell_s: number;
  /** accuracy: of a window (required); disk: free part (empty: 0.05); slo: part of requests within their objective (empty: 0.95) */
  below: number | null;
  /** camera_lost, crowd (empty: 60), slo (empty: 10): it must be so for so long */
  after_s: number | null;
  /** object, crowd, movement: keep a clip of each alarm */
  clip: boolean;
  severity: "info" | "warning" | "critical";
  /** HH:MM-HH:MM in the box's time zone: no new alarm then */
  quiet_hours: string[];
  /** no new alarm of this rule and camera sooner after the one before */
  min_interval_s: number;
};

/** A value of the schema's own subject: what a field must be, may be, or is without one. */
export type SchemaValue = unknown;

/** A secret's name and what refers to it. */
export type SecretAnswer = {
  name: string;
  used_by: string[];
};

/** Of an "slo" alarm: the served model or application, its tenant (null: of none), and the camera that asks it, if
 * one does. */
export type ServedDetails = {
  model: string;
  tenant: string | null;
  cameras: string[];
};

/** A model or application: its demand, its work, and why it does not do more (`reason` null: nothing hinders it).
 * `camera` asks the application (null: clients do). `latency_ms`: p50, p90, p99 of the last second with answers, empty
 * before; `served_part` and `violations_recent` are 0-1. `two_queues` null: its requests wait in one queue. */
export type ServedModelAnswer = {
  camera: string | null;
  name: string;
  kind: "model" | "application";
  state: "waiting" | "checking" | "measuring" | "starting" | "serving" | "capped" | "refused" | "failed";
  reason: ModelReasonAnswer | null;
  version: string | null;
  slo_ms: number | null;
  priority: number;
  rate: number;
  planned_rate: number;
  held_rate: number;
  served_part: number;
  latency_ms: number[];
  violations_recent: number;
  total: RequestTotals;
  queued: number;
  running: number;
  two_queues: TwoQueuesAnswer | null;
};

/** A served model, small: fields as in `ServedModelAnswer`, `reason` in words (empty: nothing hinders it). */
export type ServedModelNow = {
  camera: string | null;
  name: string;
  kind: string;
  state: string;
  reason: string;
  version: string | null;
  slo_ms: number | null;
  rate: number;
  planned_rate: number;
  served_part: number;
  latency_ms: number[];
  violations_recent: number;
};

/** The served models: where, how fast, and those that cannot be served. */
export type Serving = {
  front: FrontAnswer;
  settings: ServingPlanning;
  share: ServingShare;
  reorganising: boolean;
  models: ServedModelAnswer[];
  applications: ApplicationAnswer[];
  executors: ExecutorAnswer[];
  interference: InterferenceAnswer;
  plan: ServingPlanAnswer | null;
  problem: ServingProblemAnswer | null;
};

/** A model's demand as it is planned for, or that of one `queue` of it. */
export type ServingDemand = {
  name: string;
  rate: number;
  slo_ms: number;
  priority: number;
  queue: number;
};

/** Served models, small. `front_share`: the front's share. */
export type ServingNow = {
  front: FrontAnswer;
  share: ServingShare;
  front_share: number;
  reorganising: boolean;
  models: ServedModelNow[];
};

/** The file format "gpulet-plan/1". `decision_seconds` null: not measured. Users of some cameras are not shown
 * `reasons`, which may name applications of other cameras. */
export type ServingPlanAnswer = {
  format: string;
  policy: string;
  schedulable: boolean;
  gpulets: PlannedGpulet[];
  reasons: string[];
  unplaced: string[];
  decision_seconds: number | null;
};

/** How served models share the box: changeable by REST at run time, in force at once. */
export type ServingPlanning = {
  policy: "mosaic" | "elastic" | "elastic-no-interference" | "squishy" | "guided-self-tuning" | "ideal";
  /** of applications' objectives over their stages; even: for comparison */
  split: "joint" | "even";
  /** that plans reckon with; watched: as live batches take them where the table is off; measured: as the table has them, for comparison */
  latencies: "watched" | "measured";
  /** share of the device that all models together may take */
  max_share: number;
  /** models below it get only what cameras leave at their best */
  cameras_priority: number;
  /** of the moving average of rates, when they fall */
  half_life_s: number;
  /** of the moving average of rates, when they rise */
  rise_half_life_s: number;
  /** rates are planned higher by this factor */
  headroom: number;
  /** least time before a plan for more requests */
  grow_dwell_s: number;
  /** least time before a plan for fewer requests */
  shrink_dwell_s: number;
  /** rate, SLO, priority by model */
  models: Record<string, ModelDemand>;
};

/** The file format "gpulet-problem/1". `max_gpulets` null: any number. */
export type ServingProblemAnswer = {
  format: string;
  devices: number;
  capacity: number;
  models: ServingDemand[];
  max_gpulets: number | null;
};

/** Shares of the device: `reserved` of it for models, what the plan takes, the `most` there may be, what is left
 * `beside_cameras`, what is measured with, and what the front takes beyond its share. */
export type ServingShare = {
  reserved: number;
  planned: number;
  most: number;
  beside_cameras: number;
  measuring: number;
  front_more: number;
};

/** A login in a browser; `current`: the one that asks. */
export type SessionAnswer = {
  id: string;
  user: string;
  address: string;
  agent: string;
  created_utc_s: number;
  last_used_utc_s: number;
  expires_utc_s: number;
  current: boolean;
};

/** Whether there is no admin yet, and whether the caller is known. */
export type SetupAnswer = {
  open: boolean;
  logged_in: boolean;
};

/** A part of the device; "others": cameras that the reader may not see. */
export type ShareAnswer = {
  kind: "inference" | "retraining" | "profiling" | "golden" | "serving" | "front" | "control" | "others";
  camera: string | null;
  config: string | null;
  share: number;
};

/** How shares of the device are kept. `units`: cores or SMs behind share 1; `step` None: any size. */
export type ShareKindAnswer = {
  kind: "mps" | "mps+green" | "cgroup" | "cgroup+coop" | "coop";
  device: string;
  enforced: "reserve" | "cap" | "coop";
  resize: "live" | "respawn";
  min_share: number;
  step: number | null;
  units: number;
  oversubscribe: boolean;
  memory_limit: boolean;
  fault_domain: "worker" | "device";
  evidence: string;
};

/** A tenant's share of the device. `held`: its budget; `given`: the share that its executors or cameras have in the
 * plan in force; `entitlement`: its share by right; `floor`: the least that it has, by its setting or by the need of
 * its plan; `raised_to_floor`: how much its budget was raised to it; `moves` since the start. */
export type ShareOfTenant = {
  held: number;
  given: number;
  entitlement: number;
  floor: number;
  raised_to_floor: number;
  moves: number;
};

/** A camera's shares of the device: for answers (as `lambda` says) and for its retraining (`config`). */
export type SharesOfCamera = {
  inference: number;
  retraining: number;
  config: string | null;
  lambda: string | null;
};

/** The settings of the sharing; when shares were decided last and will be next (null: not yet, or not known), and
 * the welfare now: mean and least utility of the tenants that were measured. `dwell_s`: a tenant that moved stays for
 * so long, by the settings or, where a move starts executors anew (`restarts`), for a least time. `lacking`: floors
 * are more than there is, by so much of the device; then each tenant has its part of its own. */
export type SharingAnswer = {
  settings: SharingSettings;
  dwell_s: number;
  restarts: boolean;
  active: boolean;
  capacity: number;
  decided_utc_s: number | null;
  next_utc_s: number | null;
  lacking: number;
  social_welfare: number | null;
  egalitarian_welfare: number | null;
};

/** Another box as it was heard last: whether it shares pictures. */
export type SharingBoxAnswer = {
  box: string;
  shared: "shares" | "off" | "not_known" | "silent" | "failed";
};

/** How tenants share the box. */
export type SharingSettings = {
  /** ew: greatest least utility; sw: greatest mean; njc: fair */
  policy: "ew" | "sw" | "njc" | "fair" | "minerva" | "greedy-ew";
  /** shares of serving tenants are decided so often */
  interval_s: number;
  /** most that a tenant gets or gives in a decision, but for raises to a floor, need or entitlement */
  largest_step: number;
  /** a tenant that misses its goal, or of which nothing is known, has (1 - explore) of its entitlement */
  explore: number;
  /** least time between two moves of a tenant */
  dwell_s: number;
  /** smaller moves are not made */
  hysteresis: number;
  /** alarm where a goal is missed for so long at the entitlement */
  missed_minutes: number;
};

/** The recorded day under another policy: performance is expected by the learned curves, moved to what was
 * recorded. `rows` of five minutes, `seconds` in all, were replayed, from `from_utc_s` on; the means of the tenants'
 * utilities and the least one, in the mean over time. */
export type SharingWhatIf = {
  policy: string;
  rows: number;
  seconds: number;
  from_utc_s: number | null;
  social_welfare: number | null;
  egalitarian_welfare: number | null;
  other_social_welfare: number | null;
  other_egalitarian_welfare: number | null;
  tenants: TenantWhatIf[];
};

/** Times in which the control loop did nothing else, in seconds: the longest since the start and of the last hour;
 * `count` and `seconds` of those longer than a second. */
export type SilenceAnswer = {
  longest_s: number;
  longest_in_hour_s: number;
  count: number;
  seconds: number;
};

/** A camera as the source of an application: the answers per second that it asks with, at most `max_rate` (null: no
 * limit); objects of these `classes` (empty: all) with at least `min_score`, the likeliest `most` of each answer.
 * `lost`: answers of the camera that no application got, since its worker started. `fault`: why it gives nothing. */
export type SourceAnswer = {
  fault: "unknown_camera" | "camera_off" | "unknown_class" | null;
  rate: number;
  max_rate: number | null;
  classes: string[];
  min_score: number;
  most: number;
  lost: number;
};

/** The time of a stage in the plan that would be, beside that of the even split. */
export type StageBudgetAnswer = {
  stage: string;
  model: string;
  budget_ms: number;
  even_ms: number;
};

/** A model that may answer a stage, and the part of its answers that are right. */
export type StageOptionAnswer = {
  model: string;
  accuracy: number;
};

/** A camera now. Counters run since its worker started. `fault` and `message`: why it is in its state, `since_utc_s`
 * since when. `recorder`: the recorder's fault (empty: none). `ring` null: no video is kept for clips. `losses` by
 * kind (empty: the worker has not reported yet). */
export type StateOfCamera = {
  state: "connecting" | "live" | "stalled" | "reconnecting" | "refused" | "stopped";
  fault: "unreachable" | "refused" | "not_found" | "silent" | "frozen" | "ended" | "damaged" | "unsupported" | null;
  message: string;
  since_utc_s: number;
  connection: CameraConnection;
  stream: CameraStream;
  model: CameraModel;
  inference: CameraInference;
  accuracy: CameraAccuracy;
  recorder: string;
  ring: RingAnswer | null;
  losses: Record<string, number>;
};

/** The answer of the person `by` with what it was about. `missed`: how many objects no box fits; `width` and
 * `height` of the picture in pixels (0: not known); `imported_by`: the person who brought it in with a file. */
export type StoredAnswer = {
  id: number;
  camera: string;
  window: number;
  frame: number;
  kind: "box" | "missed";
  candidate: number | null;
  verdict: "yes" | "no" | "student" | "teacher" | "counted" | "unsure";
  missed: number | null;
  marked: MarkedObject[];
  class: string | null;
  student_box: [number, number, number, number] | null;
  teacher_box: [number, number, number, number] | null;
  width: number;
  height: number;
  by: string;
  imported_by: string | null;
  utc_s: number;
  source: "page" | "import";
};

/** A stretch of constant shares, in seconds after the window's start. */
export type StretchAnswer = {
  start_s: number;
  end_s: number;
  plan: number | null;
  phase: "preparing" | "running";
  shares: ShareAnswer[];
};

/** The published detector that a student began as. `offered` are its own classes, `table` the camera's class of each
 * (-1: none). */
export type StudentDetectorAnswer = {
  name: string;
  input: DetectorInput;
  output: DetectorOutput;
  offered: string[];
  table: number[];
  nms_iou: number;
  max_objects: number;
  licence: string;
};

/** The camera's small model. */
export type StudentSettings = {
  architecture: "ssdlite_mobilenet_v3" | "resnet18" | "mobilenet_v2" | "shufflenet_v2" | null;
  /** pixels; 0: the architecture's usual size */
  input_height: number;
  /** pixels; 0: the architecture's usual size */
  input_width: number;
  /** channel multiplier where the architecture allows it */
  width: number;
  /** hidden layer before the output; 0: none */
  last_layer_width: number;
  /** file of a student to start from; empty: as published, or random weights */
  weights: string;
  /** a shipped name (yolox_nano) or a YAML file; empty: the site's student */
  model: string;
  /** camera class -> classes of the published detector; not named: as in the camera's class_map */
  class_map: Record<string, string[]>;
};

/** A student's description (edge.core.configs.StudentSpec). `input_size`: height, width in pixels; `detector` null:
 * it is of our own architectures. */
export type StudentSpecAnswer = {
  task: string;
  architecture: string;
  classes: string[];
  input_size: [number, number];
  width: number;
  last_layer_width: number;
  detector: StudentDetectorAnswer | null;
};

/** Devices, shares, workers, disk, losses and versions (by what runs). */
export type SystemAnswer = {
  site: string;
  utc_s: number;
  started_utc_s: number;
  health: BoxHealth;
  devices: DeviceAnswer[];
  notes: string[];
  shares: SystemShares;
  workers: SystemWorker[];
  disk: SystemDisk;
  losses: Loss[];
  versions: Record<string, string>;
};

/** The disk of the data folder. `sizes` null: the database is away. */
export type SystemDisk = {
  free_bytes: number;
  total_bytes: number;
  folder: string;
  low: boolean;
  low_bytes: number;
  sizes: DiskSizes | null;
  retention: RetentionSettings;
  recording: RecordingSettings;
  retained: Retained;
};

/** The share kind in force, what it promises, and what is kept. */
export type SystemShares = {
  kind: "mps" | "mps+green" | "cgroup" | "cgroup+coop" | "coop";
  device: string;
  enforced: "reserve" | "cap" | "coop";
  resize: "live" | "respawn";
  min_share: number;
  step: number | null;
  units: number;
  oversubscribe: boolean;
  memory_limit: boolean;
  fault_domain: "worker" | "device";
  evidence: string;
  promise: string;
  limits: string[];
  kept: ReservedShares;
};

/** A worker with shares asked, granted and used in this window (or null) and its memory. `camera`: the one that it
 * works for alone. */
export type SystemWorker = {
  name: string;
  role: string;
  kind: string;
  camera: string | null;
  state: string;
  pid: number | null;
  share: number;
  restarts: number;
  respawns: number;
  last_error: string;
  messages_lost: number;
  asked: number | null;
  granted: number | null;
  used: number | null;
  memory_bytes: number | null;
};

/** Counts since the start: `events` and `workers_lost` by kind, `losses_by_cause`; by camera outcomes
 * of retrainings, and device seconds of those that ended. */
export type TallyAnswer = {
  events: Record<string, number>;
  cameras: Record<string, Record<string, number>>;
  retraining_device_s: Record<string, number>;
  workers_lost: Record<string, number>;
  losses_by_cause: Record<string, number>;
  silence: SilenceAnswer;
  retention: Retained;
};

/** Where there is room in the candidate's tenant: inside its entitlement, with what others leave (`spare`), or not
 * (`none`). `share_after`: the share that the tenant would have; `room`: the most that it may have; `losses`: the
 * tenants that would lose something. */
export type TenantAdmissionAnswer = {
  tenant: string;
  within: "entitlement" | "spare" | "none";
  entitlement: number;
  held: number;
  share_after: number;
  room: number;
  losses: TenantLossAnswer[];
};

/** A tenant now. `performance` and `utility` null: nothing was measured lately. `load`: requests per second
 * (cameras: null). `missed_s`: in so much measured time it has missed its goal. `implicit`: a default tenant that no
 * settings name. `cameras` also has those of its settings that are off. Users of some cameras see the tenants all of
 * whose cameras they may see, users of some tenants see these. */
export type TenantAnswer = {
  id: string;
  name: string;
  settings: TenantSettings;
  implicit: boolean;
  models: string[];
  applications: string[];
  cameras: string[];
  share: ShareOfTenant;
  state: "meets" | "misses" | "unknown";
  performance: number | null;
  goal: number;
  utility: number | null;
  load: number | null;
  missed_s: number;
  demand: TenantDemand;
  source: "learned" | "profiled" | "proxy" | "declared" | "entitlement" | "held";
  reason: TenantReasonAnswer;
  learned: LearnedAnswer;
};

/** The learned curve; `points` is empty where nothing was measured yet. `now`: the share
 * that the tenant has now (null: it has no members); `last`: the newest report, with the share given then. */
export type TenantCurve = {
  id: string;
  goal: number;
  points: CurvePoint[];
  reports: CurveReport[];
  now: number | null;
  last: CurveReport | null;
  learned: LearnedAnswer;
};

/** The share with which the goal is expected to be met, and its bounds; null: no share is known to reach it. `best`:
 * the performance that is expected with the whole box (null: nothing was measured). With a `best`, and neither `share`
 * nor `low`, the goal is out of reach; with `low` alone it may be. */
export type TenantDemand = {
  share: number | null;
  low: number | null;
  high: number | null;
  best: number | null;
};

/** One tenant with its curve. */
export type TenantDetail = {
  tenant: TenantAnswer;
  curve: TenantCurve;
};

/** Of a "tenant" alarm: the tenant, and its cameras. */
export type TenantDetails = {
  tenant: string;
  cameras: string[];
};

/** The last day, oldest first. */
export type TenantHistory = {
  rows: TenantHistoryRow[];
};

/** Means of five minutes (or of a window, of cameras) of one tenant. `performance` null: nothing was measured.
 * `held`: its budget then. `need`: the share of its plan by its profile, `used`: the share that its workers used while
 * nothing was measured, `entitlement`: its share by right then (null: not known). */
export type TenantHistoryRow = {
  tenant: string;
  utc_s: number;
  seconds: number;
  held: number;
  given: number;
  performance: number | null;
  goal: number;
  utility: number | null;
  load: number | null;
  requests: number;
  floor: number;
  need: number | null;
  used: number | null;
  entitlement: number | null;
};

/** The share that a tenant would lose of what it holds. */
export type TenantLossAnswer = {
  tenant: string;
  held: number;
  loses: number;
};

/** The goal of a tenant. */
export type TenantObjectiveSettings = {
  /** within_slo (part of requests, for served models) or accuracy (for cameras) */
  metric: "within_slo" | "accuracy";
  /** the performance wanted, as a part */
  goal: number;
  /** how utility falls below the goal */
  utility: "linear" | "sqrt" | "quadratic";
};

/** Why a tenant has its share (edge.core.tenants.TenantReasonCode, with the numbers of the code). `others`: the
 * tenants that gave for it, or got what it gave. */
export type TenantReasonAnswer = {
  code: "entitlement" | "profiled" | "proxy" | "declared" | "no_traffic" | "front_down" | "kept" | "more" | "less" | "floor" | "dwell" | "window" | "one";
  numbers: Record<string, number>;
  others: string[];
};

/** A tenant: a named group of served models and applications, or of cameras. One with the id default or
 * default-cameras has the members that no other names. */
export type TenantSettings = {
  /** lower-case name */
  id: string;
  name: string;
  /** a weight: its part of the sum is its by right */
  entitlement: number;
  objective: TenantObjectiveSettings;
  models: string[];
  applications: string[];
  cameras: string[];
  /** share of the device that it never has less of */
  floor: number;
  /** share that it says to need; counts while nothing was measured */
  declared_demand: number | null;
  /** part of its share that its workers shall use: while nothing was measured, and there is no profile, it is taken to need what they use, over this (empty: their use does not count) */
  proxy_utilisation: number | null;
};

/** One tenant over the recorded day: as it was, and as it is expected under the policy. Null: nothing measured. */
export type TenantWhatIf = {
  id: string;
  share: number;
  utility: number | null;
  other_share: number;
  other_utility: number | null;
};

/** Every tenant, the implicit ones last. `active` false: there is one tenant at most, so nothing is shared by
 * tenants and all is planned as without them. `capacity`: the share that there is for all of them. */
export type TenantsAnswer = {
  active: boolean;
  capacity: number;
  tenants: TenantAnswer[];
};

/** A camera's day (2026-11-26) in the box's time zone; `today` is the one of now. `camera_state`: whether it is
 * switched on, off, or was removed. Of alarms, retrainings and clips at most 500 of each are listed, the newest, and
 * outages up to a number of changes of the camera; `cut` names those of which there are more. Before
 * `known_from_utc_s` (null: all day) no outage is known. */
export type TimelineAnswer = {
  camera: string;
  camera_state: "on" | "off" | "removed";
  day: string;
  today: string;
  now_utc_s: number;
  from_utc_s: number;
  to_utc_s: number;
  hours: HourOfDay[];
  bucket_s: number;
  buckets: BucketOfDay[];
  alarms: AlarmAnswer[];
  retrainings: RetrainingOfDay[];
  outages: OutageAnswer[];
  known_from_utc_s: number | null;
  clips: ClipAnswer[];
  cut: ("alarms" | "retrainings" | "outages" | "clips")[];
};

/** An API token; `prefix` is how it begins. */
export type TokenAnswer = {
  id: string;
  name: string;
  user: string;
  role: "viewer" | "operator" | "admin";
  cameras: string[] | null;
  prefix: string;
  created_utc_s: number;
  expires_utc_s: number | null;
  last_used_utc_s: number | null;
};

/** A share kind that was tried on a device, in words ("cgroup v2"), and why it can or cannot be had. */
export type TriedShareKind = {
  kind: string;
  ok: boolean;
  reason: string;
};

/** True accuracy of student and teacher in one window (edge.core.truth.TrueAccuracy). */
export type TruthEstimate = {
  student: TruthInterval;
  teacher: TruthInterval;
  difference: TruthInterval;
  confidence: number;
  method: string;
  frames: number;
  objects: number;
  answers: number;
  unsure: number;
  contradicted: number;
  questions: number;
  power: Record<string, number>;
  teacher_worse: boolean;
};

/** A true F1 (or a difference of two) with its interval; `more_to_halve`: answers that would halve it. */
export type TruthInterval = {
  value: number;
  low: number;
  high: number;
  more_to_halve: number | null;
};

/** The newest estimate and what is asked. `detection` false: the camera classifies, nothing is asked; `asking`: the
 * window asked about, with `answers` so far; `enough`: answers after which a newer window is begun. */
export type TruthOfCamera = {
  camera: string;
  detection: boolean;
  window: number | null;
  estimate: TruthEstimate | null;
  asking: number | null;
  answers: number;
  answers_needed: number;
  enough: number;
  findings: FindingAnswer[];
  history: TruthOfWindow[];
};

/** A window's estimate. */
export type TruthOfWindow = {
  window: number;
  estimate: TruthEstimate;
};

/** A model whose requests wait in two queues, and why: the plan takes less share than with one ("less_share"), or
 * with one queue not all is served ("fits"; `one_share` is null then). */
export type TwoQueuesAnswer = {
  model: string;
  reason: "less_share" | "fits";
  share: number;
  one_share: number | null;
  queues: QueueAnswer[];
};

/** Of an "unusual" alarm: the line and direction, the objects in the hour that began at `start_utc_s`, and what is
 * usual by `weeks` past weeks: the median, and the range that is not far from it. */
export type UnusualDetails = {
  name: string;
  way: string;
  objects: number;
  usual: number;
  low: number;
  high: number;
  weeks: number;
  start_utc_s: number;
};

/** Shares of a worker since the window began: asked, granted and used; `device_seconds` of device time in `wall_s`
 * seconds; fractions of the time in which it was held back or waited. */
export type UsageNow = {
  worker: string;
  activity: string;
  camera: string | null;
  asked: number;
  granted: number;
  used_share: number;
  device_seconds: number;
  wall_s: number;
  throttled_fraction: number;
  visible_units: number | null;
  given_share: number | null;
  waited_fraction: number;
  demand_limited: boolean;
  running: boolean;
};

/** The share of a worker over an accounting period: asked, granted, used; device and wall seconds. */
export type UsageRecord = {
  id: number;
  window: number;
  at_utc_s: number;
  worker: string;
  role: string;
  camera: string | null;
  asked: number;
  granted: number;
  used: number;
  device_seconds: number;
  wall_s: number;
  throttled_fraction: number;
};

/** The share of a worker in the window, by what it did. */
export type UsedShare = {
  worker: string;
  kind: "inference" | "retraining" | "profiling" | "golden" | "serving" | "front" | "control" | "others";
  camera: string | null;
  asked: number;
  granted: number;
  used: number;
  device_seconds: number;
  wall_s: number;
  throttled_fraction: number;
};

/** A user. */
export type UserAnswer = {
  name: string;
  role: "viewer" | "operator" | "admin";
  cameras: string[] | null;
  tenants: string[] | null;
  disabled: boolean;
  must_change: boolean;
  created_utc_s: number;
  last_login_utc_s: number | null;
};

/** A version of a camera's student. `frames`: labelled frames that it was trained on; `blob_kept` false: retention
 * deleted the weights, the record is left. `retraining`: the configuration with the id `config`, null where none of
 * the present settings has it. */
export type VersionAnswer = {
  id: string;
  camera: string;
  blob: string;
  spec: StudentSpecAnswer;
  parent: string | null;
  origin: "first" | "retrained" | "sibling" | "download";
  window: number | null;
  config: string | null;
  retraining: ConfigAnswer | null;
  scores: Record<string, number>;
  state: "candidate" | "promoted" | "rejected" | "retired" | "rolled_back";
  decided_by: string;
  reason: string;
  pinned: boolean;
  created_utc_s: number;
  frames: number;
  device_seconds: number;
  blob_kept: boolean;
};

/** A receiver's settings and state. */
export type WebhookAnswer = {
  /** lower-case name */
  id: string;
  enabled: boolean;
  /** http:// or https://; redirects are not followed */
  url: string;
  kinds: ("alarm" | "object" | "count" | "report")[];
  /** empty: all */
  phases: ("new" | "update" | "end")[];
  /** empty: all */
  cameras: string[];
  /** of alarms; empty: all */
  severities: ("info" | "warning" | "critical")[];
  /** signs each POST; env:NAME, file:/path[#key] or secret:NAME */
  secret_from: string;
  /** certificates to trust (PEM); empty: the system's */
  ca_file: string;
  /** also to 169.254.0.0/16 and fe80::/10, where clouds hand out credentials */
  link_local: boolean;
  /** for one POST with its answer */
  timeout_s: number;
  /** of a message that is answered with an error */
  max_tries: number;
  queue: QueueSettings;
  state: OutputState;
};

/** The plan that another policy would have made. */
export type WhatIfAnswer = {
  policy: string;
  plan: WindowPlanFile;
  objective: number;
  original_policy: string;
  original_objective: number;
  comparison: ComparedPlans;
};

/** A window. `details`, of all cameras together, is null for a user of some cameras. */
export type WindowAnswer = {
  id: number;
  start_utc_s: number;
  length_s: number;
  policy: string;
  settings: RecordedSettings;
  open: boolean;
  closed_utc_s: number | null;
  outcome: "open" | "completed" | "interrupted" | "aborted";
  details: WindowDetails | null;
  cameras: WindowRow[];
};

/** Objects per class that teacher and student saw in a window's labelled pictures. */
export type WindowClasses = {
  window: number;
  start_utc_s: number | null;
  frames: number;
  teacher: Record<string, number>;
  student: Record<string, number>;
};

/** Results of all cameras together that an earlier version kept; this one keeps nothing there. */
export type WindowDetails = Record<string, unknown>;

/** The retraining window that is open. */
export type WindowNow = {
  number: number;
  start_utc_s: number;
  end_utc_s: number;
  length_s: number;
  phase: string;
};

/** A policy's answer: the predicted timeline of the whole window, its objective and why it was chosen.
 * `objective` is the mean over streams of the time-averaged inference accuracy, as the scoring rule computes it.
 * `reasons` are by stream id ("": of the whole). `faults` are rules that could not be kept (floor). */
export type WindowPlanFile = {
  format: "retrain-infer-plan/1";
  policy: string;
  problem: string;
  objective: number;
  segments: ({ start_s: number; streams: Record<string, { inference_share: number; retraining_share?: number; retrain_config?: string | null }> })[];
  decision_seconds?: number;
  reasons?: Record<string, string>;
  faults?: string[];
  reason_values?: Record<string, ({ code: "retrain" | "go_on" | "lent" | "not_worth_it" | "no_gain" | "no_share" | "inference" | "none_retrained" | "side_by_side" | "one_after_another" | "granted" | "least_kept" | "recorded"; camera?: string | null; name?: string; numbers?: Record<string, number>; sentence?: string })[]>;
  fault_values?: ({ code: "floor_unreachable" | "under_floor" | "recorded"; camera: string | null; floor?: number; accuracy?: number; share?: number; sentence?: string })[];
};

/** Accuracy of a window as its plan predicted it, and as it was. */
export type WindowPrediction = {
  predicted: number;
  realised: number;
};

/** Everything a window policy may look at. `num_gpus` devices (may be a fraction: the rest that serving leaves),
 * `window_s` seconds, shares in multiples of `delta`, floor `a_min` or None, `label_delay_s` taken off the start.
 * `share_step` is the finest share that can be granted (devices); None: not known, any share may be asked for.
 * `carry_s` seconds after the window the models that it ends with still count for a policy that looks so far (the next
 * window serves with them until it has retrained); the objective of a plan is that of the window alone. */
export type WindowProblemFile = {
  format: "retrain-infer-window/1";
  name?: string;
  num_gpus: number;
  window_s: number;
  streams: ({ id: string; start_accuracy: number; inference_profile: { kind: "linear" | "subsampling"; max_gpu: number; subsampling?: number[]; factor?: number[]; name?: string; points?: ({ config: { frame_rate: number; resolution?: number; region?: [number, number, number, number]; shape?: "camera" | "model" }; share: number; factor: number })[] }; retrain_configs?: ({ id: string; end_accuracy: number; gpu_seconds: number; curve?: [number, number][]; throughput?: [number, number][]; end_accuracy_low?: number | null; teaches?: number; members?: number; [key: string]: unknown })[]; model?: string; running?: string | null; work_done?: number; promise?: { measured: number; correction: { offset?: number; gain?: number; pull?: number; usual?: number | null; decay_per_s?: number; reliability?: number } } | null; arrival?: { at_s: number; accuracy: number; box?: string } | null })[];
  delta?: number;
  a_min?: number | null;
  label_delay_s?: number;
  seed?: number | null;
  share_step?: number | null;
  carry_s?: number;
};

/** The results of one camera in one window. `realised`: of the answers really given, `frozen`: of the first student
 * in shadow; `losses` by what was lost. */
export type WindowRow = {
  window: number;
  camera: string;
  model_version: string | null;
  realised: MeasuredAccuracy | null;
  frozen: MeasuredAccuracy | null;
  frames_sampled: number;
  frames_labelled: number;
  objects_labelled: number;
  labelling_delay_s: number | null;
  profiling_delay_s: number | null;
  losses: Record<string, number>;
  manifest: string | null;
  picture_bytes: number;
  pictures_dropped: boolean;
  details: RowDetails;
};

/** A window with everything recorded of it, oldest first in each list. */
export type WindowStory = {
  window: WindowAnswer;
  plans: PlanAnswer[];
  profiles: ProfileAnswer[];
  jobs: JobAnswer[];
  usage: UsageRecord[];
  costs: CostAnswer[];
};

/** A window's estimate with its number. */
export type WindowTruth = {
  student: TruthInterval;
  teacher: TruthInterval;
  difference: TruthInterval;
  confidence: number;
  method: string;
  frames: number;
  objects: number;
  answers: number;
  unsure: number;
  contradicted: number;
  questions: number;
  power: Record<string, number>;
  teacher_worse: boolean;
  window: number;
};

/** A worker process. Counters run since it was started first. */
export type WorkerNow = {
  name: string;
  role: string;
  kind: string;
  camera: string | null;
  state: string;
  pid: number | null;
  share: number;
  restarts: number;
  respawns: number;
  last_error: string;
  messages_lost: number;
};

/** A named part of a camera's picture. */
export type ZoneSettings = {
  /** lower-case name */
  name: string;
  /** [x, y] in fractions of the picture; closed by itself */
  polygon: [number, number][];
  /** only objects of these classes count; empty: all */
  classes: string[];
};
