{{- define "magpie.labels" -}}
app.kubernetes.io/name: magpie
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "magpie.selector" -}}
app.kubernetes.io/name: magpie
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "magpie.container" -}}
image: {{ printf "%s:%s" .Values.image.name .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: MAGPIE_NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  - name: MAGPIE_NODE_ADDRESS
    valueFrom: {fieldRef: {fieldPath: status.hostIP}}
  - name: MAGPIE_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: MAGPIE_FLEET
    value: {{ .Values.fleet | quote }}
  - name: MAGPIE_IMAGE
    value: {{ printf "%s:%s" .Values.image.name .Values.image.tag | quote }}
  - name: MAGPIE_POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: MAGPIE_POD_UID
    valueFrom: {fieldRef: {fieldPath: metadata.uid}}
volumeMounts:
  - {name: site, mountPath: /etc/magpie}
  - {name: data, mountPath: /var/lib/magpie}
  - {name: scratch, mountPath: /tmp}
{{- end }}
