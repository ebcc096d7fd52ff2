{{/* Names and labels. */}}

{{- define "jqmaster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the longest suffix, a worker's name, in the 63 characters of a label. */}}
{{- define "jqmaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" -}}
{{- else if contains (include "jqmaster.name" .) .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "jqmaster.name" .) | trunc 30 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What never changes between two versions, because selectors cannot. Takes a dict of root and component. */}}
{{- define "jqmaster.selector" -}}
app.kubernetes.io/name: {{ include "jqmaster.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .worker }}
jqmaster-worker: {{ . }}
{{- end }}
{{- end -}}

{{- define "jqmaster.labels" -}}
{{ include "jqmaster.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image. Takes a dict of root and image, whose empty fields are those of the masters' image. */}}
{{- define "jqmaster.image" -}}
{{- $own := .root.Values.image -}}
{{- $given := .image | default dict -}}
{{- $digest := ternary $given.digest $own.digest (not (empty $given.repository)) -}}
{{- $tag := ternary $given.tag $own.tag (not (empty $given.repository)) -}}
{{- $repository := $given.repository | default $own.repository -}}
{{- if $digest -}}
{{ $repository }}@{{ $digest }}
{{- else -}}
{{ $repository }}:{{ $tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the standard `restricted` asks of pods and containers, and more: no token, no links. */}}

{{- define "jqmaster.podSecurity" -}}
# jqmaster does not need a token of the cluster, but a thief could use it.
automountServiceAccountToken: false
# Otherwise a Service named jqmaster would set JQMASTER_PORT to tcp://…, which is not a port.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  # Pods with large volumes start faster if the owner is not changed needlessly.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "jqmaster.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where pods go. Takes the values of masters or of a worker. */}}
{{- define "jqmaster.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Spread over nodes and zones as well as it goes. Takes root, component, worker. */}}
{{- define "jqmaster.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    # A pod that waits for a better node serves nobody.
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "jqmaster.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{/* Addresses. */}}

{{- define "jqmaster.scheme" -}}
{{- ternary "https" "http" .Values.tls.enabled -}}
{{- end -}}

{{- define "jqmaster.url" -}}
{{ include "jqmaster.scheme" . }}://{{ include "jqmaster.fullname" . }}:{{ .Values.masters.service.port }}
{{- end -}}

{{/* As seen from other namespaces, such as KEDA's. */}}
{{- define "jqmaster.urlFromAfar" -}}
{{ include "jqmaster.scheme" . }}://{{ include "jqmaster.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.masters.service.port }}
{{- end -}}

{{- define "jqmaster.anyAddress" -}}
{{- ternary "::" "0.0.0.0" (eq .Values.ipFamily "IPv6") -}}
{{- end -}}

{{- define "jqmaster.podAddress" -}}
{{- ternary "[$(POD_IP)]" "$(POD_IP)" (eq .Values.ipFamily "IPv6") -}}
{{- end -}}

{{/* Variables from fields of the pod. They stand before those that use them. */}}
{{- define "jqmaster.podEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end -}}

{{/* Names of Secrets with certificates. */}}

{{- define "jqmaster.mastersTls" -}}
{{- if .Values.tls.mastersSecret -}}
{{ .Values.tls.mastersSecret }}
{{- else if .Values.tls.certManager.enabled -}}
{{ include "jqmaster.fullname" . }}-master-tls
{{- else -}}
{{- fail "tls.enabled without tls.certManager.enabled needs tls.mastersSecret, a Secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- end -}}

{{- define "jqmaster.clientTls" -}}
{{- if .Values.tls.clientSecret -}}
{{ .Values.tls.clientSecret }}
{{- else if .Values.tls.certManager.enabled -}}
{{ include "jqmaster.fullname" . }}-client-tls
{{- else -}}
{{- fail "tls.enabled without tls.certManager.enabled needs tls.clientSecret, a Secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- end -}}

{{/* Whether a group of workers needs a certificate: to serve masters, or to present it to them. Takes root, worker. */}}
{{- define "jqmaster.hasCertificate" -}}
{{- if and .root.Values.tls.enabled (or (eq .worker.mode "push") .root.Values.tls.mastersWantCertificates) -}}
true
{{- end -}}
{{- end -}}

{{- define "jqmaster.workerTls" -}}
{{- if .worker.tlsSecret -}}
{{ .worker.tlsSecret }}
{{- else if .root.Values.tls.certManager.enabled -}}
{{ include "jqmaster.workerName" . }}-tls
{{- else -}}
{{- fail (printf "workers: %s needs tlsSecret, a Secret with tls.crt, tls.key and ca.crt, or tls.certManager.enabled" .worker.name) -}}
{{- end -}}
{{- end -}}

{{- define "jqmaster.workerName" -}}
{{ include "jqmaster.fullname" .root }}-worker-{{ .worker.name }}
{{- end -}}

{{/* All groups of workers as JSON, each with the defaults where it says nothing; and what the schema cannot refuse. */}}
{{- define "jqmaster.workers" -}}
{{- $all := list -}}
{{- $names := list -}}
{{- range .Values.workers -}}
{{- $worker := mergeOverwrite (deepCopy $.Values.workerDefaults) . -}}
{{- if has $worker.name $names -}}
{{- fail (printf "workers: two groups are named %s" $worker.name) -}}
{{- end -}}
{{- if not (or $worker.target $worker.autodiscover $worker.commands) -}}
{{- fail (printf "workers: %s needs a target (MODULE:OBJECT), autodiscover or commands" $worker.name) -}}
{{- end -}}
{{- if eq $worker.kind "ScaledJob" -}}
{{- if ne $worker.scaling.by "keda" -}}
{{- fail (printf "workers: %s is a ScaledJob, which needs scaling.by: keda" $worker.name) -}}
{{- end -}}
{{- if ne $worker.mode "pull" -}}
{{- fail (printf "workers: %s is a ScaledJob, which needs mode: pull" $worker.name) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $worker.scaling.by "hpa") (lt (int $worker.scaling.min) 1) -}}
{{- fail (printf "workers: %s: scaling.min must be at least 1 with scaling.by: hpa; only keda scales to 0" $worker.name) -}}
{{- end -}}
{{- if gt (int $worker.scaling.min) (int $worker.scaling.max) -}}
{{- fail (printf "workers: %s: scaling.min must not be larger than scaling.max" $worker.name) -}}
{{- end -}}
{{- $names = append $names $worker.name -}}
{{- $all = append $all $worker -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The rule of a NetworkPolicy for names. */}}
{{- define "jqmaster.dnsRule" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
  {{- with .Values.networkPolicy.dns }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Policies without a peer that another value needs would cut it off, and nobody would be told. Takes root, workers. */}}
{{- define "jqmaster.checkPeers" -}}
{{- $values := .root.Values -}}
{{- $policy := $values.networkPolicy -}}
{{- $otherwise := "or set networkPolicy.enabled: false" -}}
{{- range .workers -}}
{{- if and (eq .scaling.by "keda") (not $policy.keda) -}}
{{- fail (printf "workers: %s has scaling.by: keda, but KEDA could not ask the masters for the demand, because networkPolicy.keda names nobody: name its pods, such as networkPolicy: {keda: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: keda}}}]}, %s" .name $otherwise) -}}
{{- end -}}
{{- end -}}
{{- if and $values.monitoring.podMonitor.enabled (not $policy.prometheus) -}}
{{- fail (printf "monitoring.podMonitor.enabled: Prometheus could not reach the masters, because networkPolicy.prometheus names nobody: name its pods, such as networkPolicy: {prometheus: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}, %s" $otherwise) -}}
{{- end -}}
{{- if and $values.ingress.enabled $values.ingress.host (not $policy.ingressController) -}}
{{- fail (printf "ingress.enabled: the controller could not reach the masters, because networkPolicy.ingressController names nobody: name its pods, such as networkPolicy: {ingressController: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]}, %s" $otherwise) -}}
{{- end -}}
{{- if not $policy.mastersEgress -}}
{{- range $setting := list "smtp_url" "oidc_issuer" "traces_endpoint" "log_archive_endpoint" "webhook_secrets" -}}
{{- if or (hasKey $values.masters.settings $setting) (hasKey $values.masters.secretSettings $setting) -}}
{{- fail (printf "masters: %s needs connections that the NetworkPolicy does not let the masters open, because networkPolicy.mastersEgress is empty: allow them, such as networkPolicy: {mastersEgress: [{ports: [{port: 443}]}]}, %s" $setting $otherwise) -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix "s3:" (get $values.masters.settings "log_archive_url" | default "") -}}
{{- fail (printf "masters: log_archive_url needs connections that the NetworkPolicy does not let the masters open, because networkPolicy.mastersEgress is empty: allow them, such as networkPolicy: {mastersEgress: [{ports: [{port: 443}]}]}, %s" $otherwise) -}}
{{- end -}}
{{- end -}}
{{- end -}}
