{{/* The names that several manifests have. */}}
{{/* A Service's name has 63 characters at most and no dot; the longest suffix is "-metrics". A release's name has up to 53, and dots. */}}
{{- define "ticdc-dump.name" -}}{{ printf "ticdc-dump-%s" .Release.Name | replace "." "-" | regexFind "^.{0,54}[a-z0-9]" }}{{- end }}
{{/* A label's value has 63 characters at most, an id up to 128. */}}
{{- define "ticdc-dump.changefeed" -}}
{{- regexFind "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?" .Values.settings.changefeed.id }}
{{- end }}
{{- define "ticdc-dump.labels" -}}
app.kubernetes.io/name: ticdc-dump
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
{{- define "ticdc-dump.serviceAccount" -}}{{ .Values.serviceAccount.name | default (include "ticdc-dump.name" .) }}{{- end }}
{{- define "ticdc-dump.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "ticdc-dump.controlPort" -}}{{ last (splitList ":" .Values.settings.control.listen) }}{{- end }}
{{- define "ticdc-dump.metricsPort" -}}{{ last (splitList ":" .Values.settings.metrics.listen) }}{{- end }}
{{- define "ticdc-dump.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
{{/* A table as TOML. A scalar or a list of scalars in JSON is TOML too; toToml writes whole numbers as 1.0e+06. */}}
{{- define "ticdc-dump.key" -}}{{ if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end }}{{- end }}
{{- define "ticdc-dump.toml" -}}
{{- $path := .path }}
{{- range $key, $value := .table }}
{{- if not (kindIs "map" $value) }}
{{ include "ticdc-dump.key" $key }} = {{ toRawJson $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $below := append $path (include "ticdc-dump.key" $key) }}

[{{ join "." $below }}]
{{- include "ticdc-dump.toml" (dict "path" $below "table" $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- define "ticdc-dump.settings" -}}{{ include "ticdc-dump.toml" (dict "path" list "table" .Values.settings) | trim }}{{- end }}
