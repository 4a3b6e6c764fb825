package site

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site/conform"
	"github.com/sluice-gitops/sluice/site/index"
)

// HostileFleet has the text in every field that a repository, a forge or a person fills in.
func HostileFleet(s string) *Fleet {
	at := time.Unix(1_700_000_000, 0)
	commit := Commit{Hash: s, Subject: s, Author: s, At: at, Behind: 2}
	status := &promote.Status{Environment: s, Plan: &promote.Plan{Tree: s, Clusters: []string{s}, Commits: []string{s}}}
	status.Decision.Gates = []rollout.Gate{{Name: s, State: rollout.Waiting, Reason: s, Since: at, Until: at}}
	status.Decision.WaitsFor = s
	status.Decision.Freezes = []rollout.Freeze{{Target: s, Reason: s, By: s, From: at}}
	status.Decision.Record.Holds = []rollout.Hold{{
		Source: rollout.Source{Commit: s}, Apps: []string{s}, By: s,
		Reason: s,
	}}
	status.Decision.Record.Approvals = []rollout.Approval{{By: s, Tree: s, At: at}}
	e := &Environment{
		Name: s, Branch: s, After: []string{s}, Mode: "auto", Tip: s, Commit: commit, Since: at,
		Upstream: []Gap{{s, 3}}, Status: status, OpenWhy: s, OpenNext: at,
		Source: rollout.Source{Commit: s, Apps: map[string]string{s: s}}, Windows: []Window{{Text: s}},
		History: []Event{{
			Environment: s, Commit: s, Before: s, known: true, promoted: true, Source: commit, At: at,
			By: s, What: s, Why: s, Kind: kindRollback, Scope: s, Unknown: s,
			Apps: []AppChange{{App: s, Clusters: 1, Brought: []Fact{{index.Image, s}}}},
		}, {Environment: s, At: at, By: s, What: s, Kind: string(rollout.EventFreeze), Scope: s}},
	}
	c := &Cluster{
		Name: s, Environment: e, Class: s, Labels: map[string]string{s: s}, KubeVersion: s, State: "active",
		Branch: s, Commit: commit, Trouble: s, file: fileName(s),
	}
	c.Tip.Hash[0] = 1
	c.Health = &Health{ClusterHealth: rollout.ClusterHealth{
		State: rollout.Red, Reason: s,
		Apps: map[string]rollout.State{s: rollout.Red},
	}, Posted: []rollout.Status{{Name: s, State: s}}, Read: at}
	a := &App{Name: s, Namespace: s, File: s, file: fileName(s), Layers: &Layers{
		Columns: []string{s}, Note: s, More: 1, Cut: 1, Rows: []LayerRow{{
			Clusters: []string{s},
			Cells:    []LayerCell{{Value: s, Files: []string{s}, Set: 2, Wins: 1}},
		}},
		Values: []LayerValue{{Source: s, Path: s, Outcomes: []Outcome{{
			Value: s, Layer: s, Place: s,
			Overridden: []string{s}, Clusters: []string{s},
		}}}},
	}}
	p := &Placed{App: a, Cluster: c, Tree: gitstore.Hash{1}, Version: s, Image: s, Commit: commit}
	plain := &Cluster{Name: "plain", Environment: e, State: "active", file: "plain"} // lacks the label of the other one
	a.Placed, c.Apps, e.Clusters = []*Placed{p}, []*Placed{p}, []*Cluster{c, plain}
	e.Waves = []Wave{{Name: s, State: "pending", Reason: s, Until: at, Clusters: []*Cluster{c}}}
	e.figures(at.Add(time.Hour))
	return &Fleet{
		Name: s, Trunk: s, Tip: commit, Version: s, Made: at, Environments: []*Environment{e}, Clusters: []*Cluster{c, plain},
		Apps: []*App{a}, Labels: []string{s}, Problems: []string{s}, Warnings: []string{s}, Index: hostileIndex(s),
		Catalog: []*fleet.CatalogApp{{Name: s, File: s, Repository: s, Spec: fleet.CatalogSpec{
			Version: fleet.CatalogVersion(s), Description: s, Deprecated: s, Parameters: map[string]any{"properties": map[string]any{
				s: map[string]any{"type": s, "description": s}, s + "2": map[string]any{"enum": []any{s}, "default": s},
			}},
		}}},
		Reviews: true, MergeRequests: []MergeRequest{{
			Number: 1, Title: s, URL: "javascript:" + s, Author: s, Target: s,
			State: "open", Updated: at, Waits: s, Heads: []Head{{
				Commit: s, Base: s, At: at, Verdict: s, Headline: s,
				Stored: true,
			}, {Commit: s, Base: s, Verdict: s, Headline: s}},
		}},
		Conformance: []conform.Group{{
			Labels: []conform.Label{{Key: s, Value: s}}, Clusters: []string{s, s + "2"},
			Deviate: []string{s}, Apps: []conform.App{{
				App: s, Norm: []string{s}, Missing: []string{s}, Variables: []conform.Reference{{Name: s, Clusters: 1}},
				Variants: []conform.Variant{{Clusters: []string{s}, Layers: []string{s}}, {
					Clusters: []string{s}, Causes: []conform.Cause{{Text: s}, {Layer: s, File: s}},
					Objects: []conform.Object{
						{Object: s, Only: "norm"}, {Object: s, Fields: []conform.Field{{Path: s, Norm: s, Variant: s}}},
					},
				}},
			}},
		}},
	}
}

// objectsOf is one cluster with one object in one app, whose names are a text.
type objectsOf string

func (o objectsOf) Tree(_ context.Context, h gitstore.Hash) ([]gitstore.Entry, error) {
	if h == (gitstore.Hash{1}) {
		return []gitstore.Entry{{Name: string(o), Mode: gitstore.ModeTree, Hash: gitstore.Hash{2}}}, nil
	}
	return []gitstore.Entry{{Name: "one.yaml", Mode: gitstore.ModeFile, Hash: gitstore.Hash{3}}}, nil
}

func (o objectsOf) Blob(context.Context, gitstore.Hash) ([]byte, error) {
	name := strconv.Quote(string(o))
	return []byte("apiVersion: " + name + "\nkind: " + name + "\nmetadata:\n  name: " + name + "\n  namespace: " +
		name + "\nspec:\n  image: " + name + "\n"), nil
}

func hostileIndex(s string) *index.Index {
	x, _, err := new(index.Index).Update(context.Background(), objectsOf("-"+s),
		[]index.Cluster{{Name: s, State: index.State{Tree: gitstore.Hash{1}}}}, "")
	if err != nil {
		panic(err) // objectsOf has no errors
	}
	return x
}

// structure lists the elements of all pages with the names of their attributes.
func structure(t *testing.T, s string) (elements, visible string) {
	t.Helper()
	p, err := NewPages(HostileFleet(s), Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	var out, text strings.Builder
	for path := range p.All() {
		data, _, err := p.Render(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.Parse(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			out.WriteString(n.Data)
			for _, a := range n.Attr {
				out.WriteString(" " + a.Key)
				if (a.Key == "href" || a.Key == "src") && (strings.Contains(a.Val, "javascript:") ||
					strings.Contains(a.Val, "//") || strings.Contains(a.Val, "/../..")) {
					t.Errorf("%q: the data is %s, the key is %s=the val is %q", s, n.Data, a.Key, a.Val)
				}
			}
			out.WriteByte('\n')
		}
	}
	return out.String(), text.String()
}

func checkHostile(t *testing.T, s string) {
	t.Helper()
	plain := strings.Repeat("a", max(1, len(s)))
	want, _ := structure(t, plain)
	got, text := structure(t, s)
	if got != want {
		t.Errorf("%q changes the structure of the pages", s)
	}
	if strings.ContainsAny(text, "\u202e\u200b\x1b") || strings.Contains(text, "ZgotmplZ") {
		t.Errorf("%q reaches a page unescaped", s)
	}
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"\"><img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "javascript:alert(1)",
		"../../../etc/passwd", "//evil.example.com/x", "a' onmouseover='x", "\u202egnp\u200b\x1b[31m", "{{.}}",
		"${x}", "' ; rm -rf /",
	} {
		checkHostile(t, s)
	}
}

func FuzzHostileNames(f *testing.F) {
	f.Add("<b>")
	f.Add("data:text/html,x")
	f.Fuzz(func(t *testing.T, s string) {
		if s != "" && len(s) < 100 {
			checkHostile(t, s)
		}
	})
}

// TestHostileFleetIsFull requires that HostileFleet sets every field of text, so that a new field is tested too.
func TestHostileFleetIsFull(t *testing.T) {
	t.Parallel()
	const s = "text"
	f := HostileFleet(s)
	for _, v := range []any{
		f, f.Environments[0], f.Clusters[0], f.Apps[0], f.Apps[0].Layers,
		f.Environments[0].History[0], f.Apps[0].Placed[0], f.Environments[0].Waves[0],
	} {
		r := reflect.Indirect(reflect.ValueOf(v))
		for i := range r.NumField() {
			if field := r.Field(i); r.Type().Field(i).IsExported() &&
				(field.Kind() == reflect.String || field.Kind() == reflect.Slice) && field.Len() == 0 &&
				r.Type().Field(i).Name != "Foreign" {
				t.Errorf("%s.%s is empty", r.Type().Name(), r.Type().Field(i).Name)
			}
		}
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"prod-eu-1": "prod-eu-1", "": "''", "a b": "'a b'", "$(x)": "'$(x)'",
		"it's": `'it'\''s'`, "WHY": "WHY",
	} {
		if got := shell(word); got != want {
			t.Errorf("%q becomes %s, want %s", word, got, want)
		}
	}
}
