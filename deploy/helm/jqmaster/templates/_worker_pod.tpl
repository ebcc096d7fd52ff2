{{/* The pod of a group of workers, for Deployment, StatefulSet and ScaledJob. Takes root and worker. */}}
{{- define "jqmaster.workerPod" -}}
{{- $root := .root -}}
{{- $worker := .worker -}}
{{- $part := dict "root" $root "component" "worker" "worker" $worker.name -}}
{{- $isJob := eq $worker.kind "ScaledJob" -}}
{{- $isPush := eq $worker.mode "push" -}}
{{- $tls := $root.Values.tls -}}
{{- $hasCertificate := include "jqmaster.hasCertificate" . -}}
{{- $token := ternary $worker.token $root.Values.auth.worker (not (empty $worker.token.secret)) -}}
metadata:
  # The chart's version is left out, so a new chart alone restarts no worker.
  labels:
    {{- include "jqmaster.selector" $part | nindent 4 }}
    {{- with $worker.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $worker.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ $worker.serviceAccountName | default (include "jqmaster.fullname" $root) }}
  {{- include "jqmaster.podSecurity" $root | nindent 2 }}
  {{- if $isJob }}
  # The job queue counts and repeats attempts; Kubernetes must not.
  restartPolicy: Never
  {{- end }}
  # After graceS, the worker hands back running jobs and reports ended ones, which takes at most 15 s.
  terminationGracePeriodSeconds: {{ add $worker.graceS 30 }}
  {{- include "jqmaster.spread" $part | nindent 2 }}
  {{- with include "jqmaster.placement" $worker }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "jqmaster.image" (dict "root" $root "image" $worker.image) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [jqmaster, worker]
      args:
        {{- with $worker.target }}
        - {{ . | quote }}
        {{- end }}
        {{- range $worker.autodiscover }}
        - {{ printf "--autodiscover=%s" . | quote }}
        {{- end }}
        {{- range $worker.commands }}
        - {{ printf "--command=%s" . | quote }}
        {{- end }}
        {{- if $isPush }}
        - --port={{ $worker.port }}
        {{- else }}
        - --pull
        {{- end }}
        - --max-jobs={{ $worker.slots }}
        - --grace={{ $worker.graceS }}
        {{- range $name, $value := $worker.labels }}
        - {{ printf "--label=%s=%s" $name $value | quote }}
        {{- end }}
        {{- if $isJob }}
        - --burst
        - --burst-wait={{ $worker.scaling.burstWaitS }}
        {{- end }}
      {{- include "jqmaster.containerSecurity" $root | nindent 6 }}
      {{- if $isPush }}
      ports:
        - {name: jobs, containerPort: {{ $worker.port }}}
      {{- end }}
      env:
        {{- include "jqmaster.podEnv" $root | nindent 8 }}
        - {name: PYTHONUNBUFFERED, value: "1"}
        - {name: JQMASTER_HEALTH_FILE, value: /tmp/jqmaster-worker}
        - {name: JQMASTER_URL, value: {{ include "jqmaster.url" $root | quote }}}
        - name: JQMASTER_TOKEN
          valueFrom: {secretKeyRef: {name: {{ $token.secret }}, key: {{ $token.key }}}}
        {{- if $isPush }}
        - {name: JQMASTER_WORKER_HOST, value: {{ include "jqmaster.anyAddress" $root | quote }}}
        {{- if $tls.enabled }}
        # A name, because a certificate cannot contain the address of a pod.
        - {name: JQMASTER_WORKER_URL, value: "https://$(POD_NAME).{{ include "jqmaster.workerName" . }}.$(POD_NAMESPACE).svc:{{ $worker.port }}"}
        - {name: JQMASTER_WORKER_CERTFILE, value: /etc/jqmaster/tls/tls.crt}
        - {name: JQMASTER_WORKER_KEYFILE, value: /etc/jqmaster/tls/tls.key}
        {{- if $tls.workersWantCertificates }}
        - {name: JQMASTER_WORKER_CLIENT_CAFILE, value: /etc/jqmaster/tls/ca.crt}
        {{- end }}
        {{- else }}
        - {name: JQMASTER_WORKER_URL, value: "http://{{ include "jqmaster.podAddress" $root }}:{{ $worker.port }}"}
        {{- end }}
        {{- end }}
        {{- if $tls.enabled }}
        - {name: JQMASTER_CLIENT_CAFILE, value: /etc/jqmaster/tls/ca.crt}
        {{- if $tls.mastersWantCertificates }}
        - {name: JQMASTER_CLIENT_CERTFILE, value: /etc/jqmaster/tls/tls.crt}
        - {name: JQMASTER_CLIENT_KEYFILE, value: /etc/jqmaster/tls/tls.key}
        {{- end }}
        {{- end }}
        {{- with $worker.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $worker.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if not $isJob }}
      {{- if $isPush }}
      livenessProbe:
        # Alive while its server answers, even if masters do not: results wait in the worker for them.
        {{- if and $tls.enabled $tls.workersWantCertificates }}
        # The kubelet has no certificate to present.
        tcpSocket: {port: jobs}
        {{- else }}
        httpGet: {path: /ping, port: jobs, scheme: {{ include "jqmaster.scheme" $root | upper }}}
        {{- end }}
        initialDelaySeconds: 10
        periodSeconds: 10
        timeoutSeconds: 3
        failureThreshold: 6
      {{- end }}
      readinessProbe:
        # Ready once a master has registered the worker, so that a rolling update waits for this. This must not be the
        # liveness check: a worker that is killed because masters are away would lose the results that wait in it.
        exec: {command: [jqmaster, healthcheck]}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      {{- end }}
      resources:
        {{- toYaml $worker.resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if $tls.enabled }}
        - {name: tls, mountPath: /etc/jqmaster/tls, readOnly: true}
        {{- end }}
        {{- with $worker.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- if $tls.enabled }}
    - name: tls
      {{- if $hasCertificate }}
      secret: {secretName: {{ include "jqmaster.workerTls" . }}, defaultMode: 0440}
      {{- else }}
      # Only the CA certificates, because workers must not have the masters' key.
      secret: {secretName: {{ include "jqmaster.mastersTls" $root }}, defaultMode: 0440, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
    {{- end }}
    {{- with $worker.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
