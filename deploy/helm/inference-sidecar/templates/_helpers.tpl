{{/* Labels, names, and the parts for one's own chart: container, volumes, preStop. */}}

{{- define "inference-sidecar.labels" -}}
app.kubernetes.io/name: inference-sidecar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "inference-sidecar.selector" -}}
app.kubernetes.io/name: inference-sidecar
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "inference-sidecar.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "inference-sidecar.configName" -}}
{{ .Release.Name }}-inference-sidecar
{{- end }}

{{- define "inference-sidecar.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "inference-sidecar.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: CONTAINER_NAME
  value: inference-sidecar
{{- with .Values.gpu.visibleDevices }}
- name: NVIDIA_VISIBLE_DEVICES
  value: {{ . | quote }}
- name: NVIDIA_DRIVER_CAPABILITIES
  value: utility
{{- end }}
{{- if .Values.gpu.dcgmExporterPort }}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "inference-sidecar.livenessProbe" -}}
{{/* Of the sidecar itself alone: a probe of readiness would take the runtime out of service. */ -}}
httpGet:
  path: /healthz
  port: sidecar-metrics
  {{- if .Values.webConfig.tls }}
  scheme: HTTPS
  {{- end }}
periodSeconds: 20
timeoutSeconds: 5
failureThreshold: 3
{{- end }}

{{- define "inference-sidecar.args" -}}
- --log-level={{ .Values.logLevel }}
- run
- --config=/etc/inference-sidecar/config.yaml
- --set=listen=0.0.0.0:{{ .Values.port }}
{{- if .Values.state.enabled }}
- --set=state_file=/var/lib/inference-sidecar/state.sqlite
{{- end }}
{{- if .Values.webConfig.secretName }}
- --set=web_config_file=/etc/inference-sidecar-web/web.yml
{{- end }}
{{- if .Values.gpu.dcgmExporterPort }}
- --set=gpu.url=http://$(HOST_IP):{{ .Values.gpu.dcgmExporterPort }}/metrics
{{- end }}
{{- end }}

{{- define "inference-sidecar.mounts" -}}
- name: inference-sidecar-config
  mountPath: /etc/inference-sidecar
  readOnly: true
{{- if .Values.state.enabled }}
- name: inference-sidecar-state
  mountPath: /var/lib/inference-sidecar
{{- end }}
{{- if .Values.webConfig.secretName }}
- name: inference-sidecar-web
  mountPath: /etc/inference-sidecar-web
  readOnly: true
{{- end }}
{{- end }}

{{/* An entry of initContainers: with restartPolicy Always it starts before the runtime and ends after it. */}}
{{- define "inference-sidecar.container" -}}
- name: inference-sidecar
  image: {{ include "inference-sidecar.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args:
    {{- include "inference-sidecar.args" . | nindent 4 }}
  env:
    {{- include "inference-sidecar.env" . | nindent 4 }}
  ports:
    - {name: sidecar-metrics, containerPort: {{ .Values.port }}}
  livenessProbe:
    {{- include "inference-sidecar.livenessProbe" . | nindent 4 }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- include "inference-sidecar.securityContext" . | nindent 4 }}
  volumeMounts:
    {{- include "inference-sidecar.mounts" . | nindent 4 }}
{{- end }}

{{/* Entries of the pod's volumes. */}}
{{- define "inference-sidecar.volumes" -}}
- name: inference-sidecar-config
  configMap: {name: {{ include "inference-sidecar.configName" . }}}
{{- if .Values.state.enabled }}
- name: inference-sidecar-state
  emptyDir: {sizeLimit: {{ .Values.state.sizeLimit }}}
{{- end }}
{{- with .Values.webConfig.secretName }}
- name: inference-sidecar-web
  secret: {secretName: {{ . }}, defaultMode: 0444}
{{- end }}
{{- end }}

{{/* `lifecycle` of the runtime's container: it is told to stop once it works on nothing. */}}
{{- define "inference-sidecar.lifecycle" -}}
preStop:
  httpGet:
    path: /drain?timeout={{ .Values.drainSeconds }}s
    port: {{ .Values.port }}
    {{- if .Values.webConfig.tls }}
    scheme: HTTPS
    {{- end }}
{{- end }}

{{- define "inference-sidecar.podSpec" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
