package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func object(t *testing.T, text string) manifest.Object {
	t.Helper()
	var o manifest.Object
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

// Every way in which two builds of an app can differ is a difference, and equal objects are counted.
func TestComparison(t *testing.T) {
	t.Parallel()
	const plain = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	const placed = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"},"data":{"k":"v"}}`
	const elsewhere = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"wrong"},"data":{"k":"v"}}`
	const other = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"},"data":{"k":"w"}}`
	const big = `{"apiVersion":"v1","kind":"X","metadata":{"name":"b"},"spec":{"n":9007199254740993}}`
	const near = `{"apiVersion":"v1","kind":"X","metadata":{"name":"b"},"spec":{"n":9007199254740992}}`
	number := func(text string) string {
		return `{"apiVersion":"v1","kind":"X","metadata":{"name":"b"},"spec":{"n":[` + text + `]}}`
	}
	objects := func(texts ...string) referenceApp {
		out := referenceApp{Namespace: "ns"}
		for _, text := range texts {
			out.Objects = append(out.Objects, object(t, text))
		}
		return out
	}
	for name, c := range map[string]struct {
		ours, theirs map[string]referenceApp
		equal        int
		differs      string // "" for none
		left         int
		unread       int
	}{
		"equal": {
			map[string]referenceApp{"a": objects(placed, big)},
			map[string]referenceApp{"a": objects(big, placed)},
			2, "", 0, 0,
		},
		"added namespace": {
			map[string]referenceApp{"a": objects(placed)},
			map[string]referenceApp{"a": objects(plain)},
			1, "", 0, 0,
		},
		"content": {
			map[string]referenceApp{"a": objects(other)},
			map[string]referenceApp{"a": objects(plain)},
			0, "prod/a: ConfigMap ns/a is not equal", 0, 0,
		},
		"large integer": {
			map[string]referenceApp{"a": objects(big)},
			map[string]referenceApp{"a": objects(near)},
			0,
			"prod/a: X b is not equal", 0, 0,
		},
		"missing": {
			map[string]referenceApp{"a": objects()},
			map[string]referenceApp{"a": objects(placed)},
			0,
			"Sluice does not render it", 0, 0,
		},
		"too many": {
			map[string]referenceApp{"a": objects(placed, big)},
			map[string]referenceApp{"a": objects(placed)},
			1, "Sluice renders X b, Flux does not apply it", 0, 0,
		},
		"twice": {
			map[string]referenceApp{"a": objects(placed, placed)},
			map[string]referenceApp{"a": objects(placed)},
			1, "Flux does not apply it", 0, 0,
		},
		"unknown app": {
			map[string]referenceApp{"a": objects(placed)},
			nil, 0,
			"prod/a: Sluice imports it, Flux does not apply it", 0, 0,
		},
		"lost app": {
			nil,
			map[string]referenceApp{"a": objects(placed)},
			0,
			"prod/a: Flux applies it, Sluice does not import it", 0, 0,
		},
		"lost failure": {nil, map[string]referenceApp{"a": {Error: "no"}}, 0, "Sluice does not import it", 0, 0},
		"sluice fails": {
			map[string]referenceApp{"a": {Error: "no"}},
			map[string]referenceApp{"a": objects(placed)},
			0, "Flux builds it, Sluice does not: no", 0, 0,
		},
		"flux fails": {
			map[string]referenceApp{"a": objects(placed)},
			map[string]referenceApp{"a": {Error: "no"}},
			0, "Flux does not build it: no", 0, 0,
		},
		"both fail": {
			map[string]referenceApp{"a": {Error: "x"}},
			map[string]referenceApp{"a": {Error: "y"}},
			0,
			"", 0, 1,
		},
		"skipped failure": {
			map[string]referenceApp{"a": {Error: "x"}},
			map[string]referenceApp{"a": {Skipped: "remote"}},
			0, "", 0, 1,
		},
		"wrong namespace": {
			map[string]referenceApp{"a": objects(elsewhere)},
			map[string]referenceApp{"a": objects(plain)},
			0,
			"prod/a: Flux applies ConfigMap a, Sluice does not render it", 0, 0,
		},
		"integer and float": {
			map[string]referenceApp{"a": objects(number("3"))},
			map[string]referenceApp{"a": objects(number("3.0"))},
			0, "prod/a: X b is not equal", 0, 0,
		},
		"number and string": {
			map[string]referenceApp{"a": objects(number("3"))},
			map[string]referenceApp{"a": objects(number(`"3"`))},
			0, "prod/a: X b is not equal", 0, 0,
		},
		"two forms of a float": {
			map[string]referenceApp{"a": objects(number("1.5e1"))},
			map[string]referenceApp{"a": objects(number("15.0"))},
			1, "", 0, 0,
		},
		"skipped": {
			map[string]referenceApp{"a": objects(placed)},
			map[string]referenceApp{"a": {Skipped: "remote"}},
			0, "", 1, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := comparison{tool: "Flux"}
			got.cluster("prod", c.ours, c.theirs)
			if got.Objects != c.equal || len(got.NotCompared) != c.left || len(got.Unread) != c.unread {
				t.Errorf("the result is %+v", got)
			}
			text := strings.Join(got.Differences, "\n")
			if (c.differs == "") != (text == "") || !strings.Contains(text, c.differs) {
				t.Errorf("differences %q, want %q", text, c.differs)
			}
		})
	}
}

// Sluice has floats as floats. Flux's answer says which numbers are floats; Argo CD's is JSON, in which 3.0 is 3.
func TestComparisonOfFloats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ours, theirs string
		flux, argocd bool // they are equal
	}{
		{"3.0", "3.0", true, true},
		{"3.0", "3", false, true},
		{"3", "3.0", false, false},
		{"3.5", "3", false, false},
		{"1e20", "100000000000000000000", true, true},
		{`"3"`, "3", false, false},
		{"9007199254740993", "9007199254740993", true, true},
		{"18446744073709551615", "18446744073709551615", true, true},
		{"0o17", "15", true, true},
		{"017", "15", true, true},
	} {
		ours, err := manifest.Decode([]byte("{apiVersion: v1, kind: X, metadata: {name: b}, count: "+c.ours+"}"),
			manifest.DefaultBudget())
		if err != nil {
			t.Fatal(err)
		}
		theirs := object(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"b"},"count":`+c.theirs+`}`)
		flux, argocd := comparison{}, comparison{untyped: true}
		if got := flux.equalObjects(ours[0], theirs); got != c.flux {
			t.Errorf("Flux: %s equals %s: %t, want %t", c.ours, c.theirs, got, c.flux)
		}
		if got := argocd.equalObjects(ours[0], theirs); got != c.argocd {
			t.Errorf("Argo CD: %s equals %s: %t, want %t", c.ours, c.theirs, got, c.argocd)
		}
	}
}
