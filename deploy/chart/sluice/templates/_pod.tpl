{{- /* The pod's template, of both modes. */}}
{{- define "sluice.pod" -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ include "sluice.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "sluice.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.gracePeriodSeconds }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: sluice
      image: {{ include "sluice.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/sluice/config.yaml, --log, {{ .Values.log.format }}, --log-level, {{ .Values.log.level }}]
      env:
        - {name: SLUICE_CACHE_DIR, value: /var/lib/sluice/cache}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: http, containerPort: 8080, protocol: TCP}
        - {name: metrics, containerPort: {{ .Values.metrics.port }}, protocol: TCP}
      startupProbe: # it may wait a minute for the queue before it listens
        httpGet: {path: /healthz, port: http}
        periodSeconds: 5
        failureThreshold: 24
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 3
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        privileged: false
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/sluice, readOnly: true}
        - {name: data, mountPath: /var/lib/sluice}
        - {name: tmp, mountPath: /tmp}
        {{- range $i, $s := .Values.existingSecrets }}
        - {name: secret-{{ $i }}, mountPath: /run/secrets/sluice/{{ $s.path }}, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "sluice.fullname" . }}}
    - name: tmp
      emptyDir: {sizeLimit: {{ .Values.tmp.size }}}
    {{- if eq .Values.mode "replicas" }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.scratch.size }}}
    {{- end }}
    {{- range $i, $s := .Values.existingSecrets }}
    - name: secret-{{ $i }}
      secret: {secretName: {{ $s.name }}, defaultMode: 288} # 0440
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
