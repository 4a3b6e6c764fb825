{{- define "sluice.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "sluice.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/component: service
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.image.tag }}
app.kubernetes.io/version: {{ . | trunc 63 | quote }}
{{- end }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "sluice.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "sluice.image" -}}
{{- $i := .Values.image }}
{{- $repository := required "image.repository is needed: the registry that you pushed the image of `make image` to" $i.repository }}
{{- if not (or $i.tag $i.digest) }}{{ fail "image.tag or image.digest is needed: what runs must not depend on the day" }}{{ end }}
{{- $repository }}{{ with $i.tag }}:{{ . }}{{ end }}{{ with $i.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The configuration, with what the chart itself decides. */}}
{{- define "sluice.config" -}}
{{- $c := deepCopy .Values.config }}
{{- range list "listen" "metrics" "data" "queue" }}
{{- if hasKey $c . }}{{ fail (printf "config.%s is the chart's to set: see nats, metrics and persistence in values.yaml" .) }}{{ end }}
{{- end }}
{{- if not $c.forges }}{{ fail "config.forges is needed: docs/service.md says what stands there" }}{{ end }}
{{- $_ := set $c "listen" ":8080" }}
{{- $_ := set $c "metrics" (printf ":%d" (int .Values.metrics.port)) }}
{{- $_ := set $c "data" "/var/lib/sluice" }}
{{- if eq .Values.mode "replicas" }}
{{- $q := dict "url" (required "nats.url is needed in the mode replicas: pods cannot share the queue that is inside of one" .Values.nats.url) "replicas" (int .Values.nats.replicas) }}
{{- with .Values.nats.credentialsFile }}{{ $_ := set $q "credentials" . }}{{ end }}
{{- $_ := set $c "queue" $q }}
{{- end }}
{{- toYaml $c }}
{{- end }}
