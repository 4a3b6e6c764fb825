package helm_test

import (
	"testing"
	"time"
	_ "time/tzdata" // as in the binary
)

// A rendering is unstable if it calls a function whose results differ, not if a template of the chart mentions one.
func TestUnstableIfAFunctionIsCalled(t *testing.T) {
	const helpers = `{{ define "id" }}{{ if .Values.use }}{{ uuidv4 }}{{ end }}{{ end }}{{ define "unused" }}{{ now }}{{ end }}`
	on, off := map[string]any{"use": true, "text": `{{ randAlpha 5 }}`},
		map[string]any{"text": `{{ .Values.use }}`, "more": "{{ randAlpha 5 }}"}
	for _, text := range []string{
		`{{ if .Values.use }}{{ randAlphaNum 5 }}{{ end }}`, `{{ with .Values.use }}{{ now | date "2006" }}{{ end }}`,
		`{{ and .Values.use (genPrivateKey "ed25519") }}`,
		`{{ include "id" . }}{{ include "id" . }}`, `{{ range until 2 }}{{ include "id" $ }}{{ end }}`,
		`{{ template "id" . }}`, `{{ tpl .Values.text . }}`, `{{ tpl "{{ include \"id\" . }}" . }}`,
		`{{ if .Values.use }}{{ $_ := set .Values "id" (uuidv4) }}{{ end }}`,
		`{{ $_ := set .Values "x" (include "id" .) }}`,
		`{{ ternary "a" "b" (and .Values.use (now | kindIs "struct")) }}`,
	} {
		c := chartOf("values.yaml", "use: false\na: {b: {}}\n",
			"templates/_h.tpl", helpers, "templates/a.txt", text, "templates/b.txt",
			`{{ $_ := set .Values.a.b "x" 1 }}`).load(t)
		for i, values := range []map[string]any{off, off, on, on, off, on} {
			got, err := c.Render(t.Context(), options(values))
			if err != nil {
				t.Fatalf("%s: the error is %v", text, err)
			}
			if want := values["use"] != nil; got.Unstable != want {
				t.Errorf("%s: rendering %d: unstable: %v, want %v", text, i, got.Unstable, want)
			}
		}
	}
}

// Sprig returns the keys and the values of a map in random order. Sprig's sorting functions, and the order of several
// maps, stay as they are.
func TestKeysAndValuesHaveAnOrder(t *testing.T) {
	const want = "a,b,c,d,e,f,g,h 8,7,6,5,4,3,2,1 a,b,c,d,e,f,g,h,x,a 0 0\n"
	for range 50 { // the order of so many keys is random
		c := chartOf("values.yaml", "m: {h: 1, g: 2, f: 3, e: 4, d: 5, c: 6, b: 7, a: 8}\n",
			"templates/a.yaml", `{{ $m := .Values.m }}{{ keys $m | join "," }} {{ values $m | join "," }} {{ keys $m (dict "x" 1) (dict "a" 1) | join "," }} {{ keys | len }} {{ values (dict) | len }}`).load(t)
		got, err := c.Render(t.Context(), options(nil))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(got.Documents[0].Text); text != want {
			t.Fatalf("the text is %q, want %q", text, want)
		}
	}
}

// The time zone of the machine changes no output.
func TestTimesAreInUTC(t *testing.T) { //nolint:paralleltest // it changes the zone of the process
	local := time.Local
	time.Local = time.FixedZone("far", 9*60*60) // as on a machine there
	defer func() { time.Local = local }()
	const text = `{{ date "15:04 MST" 1700000000 }} {{ htmlDate 1700000000 }} {{ dateInZone "15:04 MST" 1700000000 "Local" }} ` +
		`{{ date_in_zone "15:04 MST" 1700000000 "Asia/Tokyo" }} {{ htmlDateInZone 1700000000 "Local" }} {{ toDate "2006-01-02" "2020-01-02" | unixEpoch }} ` +
		`{{ mustToDate "2006-01-02" "2020-01-02" }} {{ (now).Location }}`
	const want = "22:13 UTC 2023-11-14 22:13 UTC 07:13 JST 2023-11-14 1577923200 2020-01-02 00:00:00 +0000 UTC UTC\n"
	c := chartOf("templates/a.yaml", text).load(t)
	for _, probe := range []bool{false, true} {
		o := options(nil)
		o.Probe = probe
		got, err := c.Render(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(got.Documents[0].Text); text != want {
			t.Errorf("  the text is %q, want %q", text, want)
		}
	}
}
