{{- define "lib.map" -}}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Chart.Name }}-{{ .Values.name | default "map" }}}
data:
  values: {{ .Values | toJson | quote }}
{{- end -}}
