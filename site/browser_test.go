package site_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/internal/browsertest"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// TestPagesInChromium opens every kind of page in Chromium: light and dark, three widths, axe, the keyboard alone,
// without a script, hostile names. Errors of a page, among them violations of its content security policy, fail it.
// Pages and screenshots stay in SLUICE_PAGES if that is set.
func TestPagesInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	dir := os.Getenv("SLUICE_PAGES")
	if dir == "" {
		dir = t.TempDir()
	}
	write := func(name string, f *site.Fleet) {
		p, err := site.NewPages(f, site.Options{Reports: 5})
		if err != nil {
			t.Fatal(err)
		}
		if err := site.Write(filepath.Join(dir, name), p); err != nil {
			t.Fatal(err)
		}
	}
	write("demo", busy(t))
	write("hostile", site.HostileFleet(`"><img src=x onerror=pwned=1>`))
	d, states := fourStates(t)
	d.writeSite(t, filepath.Join(dir, "states"), site.Options{Reports: 2, Compare: 4}, site.Reports{})
	shots := filepath.Join(dir, "screenshots")
	if err := os.MkdirAll(shots, 0o700); err != nil {
		t.Fatal(err)
	}
	out := browsertest.Run(t, "testdata/browser/run.js", dir, shots, states[3], states[1])
	var got struct {
		Errors, Requests, Axe, Wide []string
		Pages                       int
		Facts                       struct {
			Time, Query, Rows, Theme, Fourth, Opened, Went, Kept, Noscript, Same, Compared, Linked, Stamps,
			Freeze, Labelled, Relabelled, LabelQuery, Chosen, Marked string
			Sheet, Copied, Restored, NoscriptTools bool
			Hostile, Tabs, Pairs                   int
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for what, list := range map[string][]string{
		"error": got.Errors, "request": got.Requests, "axe": got.Axe,
		"wider than its window": got.Wide,
	} {
		for _, s := range list {
			t.Errorf("%s: the state is %s", what, s)
		}
	}
	f := got.Facts
	for what, pair := range map[string][2]string{
		"filter in the address": {f.Query, "?q=shop"}, "rows": {f.Rows, "shop"}, "theme": {f.Theme, "light"},
		"fourth entry": {f.Fourth, "baseline"}, "opened": {f.Opened, "baseline"},
		"went": {f.Went, "Promotions"}, "kept theme": {f.Kept, "light"}, "local time": {f.Time, "2 Jan 2024, 12:04"},
		"times in texts that stay in UTC": {f.Stamps, ""}, "the end of the freeze": {found(f.Freeze,
			"4 Jan 2024, 09:04"), "4 Jan 2024, 09:04"},
		"clusters of the label in the address": {f.Labelled, "dev-1 prod-eu-1 staging-1"},
		"clusters of another label":            {f.Relabelled, "dev-edge-1 prod-edge-1 staging-edge-1"},
		"label in the address":                 {f.LabelQuery, "?label=class%3Dedge"},
		"overview of a label":                  {f.Chosen, "class=edge: 3 clusters in 3 environments, 3 apps"},
		"entry of a mark":                      {f.Marked, "TR"},
		"the same state twice":                 {f.Same, "Choose two different states."},
		"compared":                             {f.Compared, states[3][:12] + "…→" + states[1][:12] + "…"},
		"without a script":                     {f.Linked, f.Compared},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the pair is %q, want %q", what, pair[0], pair[1])
		}
	}
	if got.Pages != 12 || !f.Sheet || !f.Copied || !f.Restored || f.NoscriptTools || f.Hostile != 13 || f.Pairs != 6 ||
		f.Tabs < 20 || !strings.Contains(f.Noscript, "config.currency") {
		f.Noscript = ""
		t.Errorf("%d pages, %+v", got.Pages, f)
	}
}

// busy is the demo fleet with something in every place of the pages.
func busy(t *testing.T) *site.Fleet {
	t.Helper()
	d := newDemo(t)
	d.repo.Git("branch", "-f", "cluster/staging-1", d.repo.Git("rev-parse", "cluster/staging-edge-1"))
	f := d.read(t)
	f.Reviews, f.MergeRequests = true, reviewed(f.Made)
	f.Problems = append(f.Problems, "environment lab: the record cannot be read")
	at := f.Made.Add(-3 * time.Hour)
	prod := f.Environments[2]
	r := &prod.Status.Decision.Record
	r.Halt = &rollout.Halt{By: "ada", Reason: "error rate", At: at}
	r.Approvals = []rollout.Approval{{By: "carol", Tree: "0123456789abcdef", At: at}}
	r.Holds = []rollout.Hold{{
		Cause: rollout.CauseRolledBack, Source: prod.Source, Apps: []string{"shop"}, By: "dan",
		Reason: "the greeting confuses people", Since: at,
	}}
	prod.Status.Decision.Freezes = []rollout.Freeze{{
		Reason: "holidays", By: "bob", From: at,
		Until: at.Add(48 * time.Hour),
	}}
	prod.Status.Decision.Gates = []rollout.Gate{
		{
			Name: "health", State: rollout.Red,
			Reason: "kustomization/shop failed on prod-eu-1", Since: at,
		},
		{Name: "before/staging", State: rollout.Green},
		{Name: "approvals", State: rollout.Waiting, Reason: "1 of 2", Since: at},
		{Name: "check/slo", State: rollout.Unknown, Reason: "Prometheus does not answer"},
	}
	for i, c := range prod.Clusters {
		posted := "success"
		if i > 0 {
			posted = "failure"
		}
		c.Health = &site.Health{
			ClusterHealth: rollout.ClusterHealth{
				State:  rollout.Green,
				Reason: "kustomization/shop/1 is " + posted, Apps: map[string]rollout.State{"shop": rollout.Green},
			},
			Posted: []rollout.Status{{Name: "kustomization/shop/1", State: posted}}, Read: at,
		}
		if i > 0 {
			c.Health.State, c.Health.Apps["shop"] = rollout.Red, rollout.Red
		}
	}
	prod.Windows = []site.Window{
		{Text: "Mon, Tue 09:00–16:00 Europe/Berlin"},
		{Text: "2024-12-24 00:00–23:59 UTC", Deny: true},
	}
	past := func(hours int, kind rollout.EventKind, commit, what string) site.Event {
		e := site.Event{
			Environment: "prod", Commit: commit, At: f.Made.Add(time.Duration(-hours) * time.Hour), By: "ada", What: what,
			Kind: string(kind),
		}
		if commit != "" {
			e.Source = prod.Commit
		}
		return e
	}
	prod.History[0].At = f.Made.Add(-300 * time.Hour)
	prod.History = append([]site.Event{
		past(3, rollout.EventHalt, "", "halt; reason: error rate"),
		past(9, rollout.EventRollback, strings.Repeat("c", 40), "Roll back to the state before"),
		past(30, rollout.EventPromote, strings.Repeat("b", 40), "Promote prod"),
		past(50, rollout.EventUnfreeze, "", "unfreeze; reason: the fair is over"),
		past(90, rollout.EventFreeze, "", "freeze; reason: the fair"),
		past(95, "override", strings.Repeat("d", 40), "Promote prod at once"),
		past(120, rollout.EventPromote, strings.Repeat("a", 40), "Promote prod"),
		past(200, "foreign", strings.Repeat("e", 40), "Fix by hand"),
	}, prod.History...)
	for i := range prod.Figures.Weeks {
		w := &prod.Figures.Weeks[i]
		w.Deployed, w.RolledBck = 2+i*5%4, max(0, i%5-3)
		w.Lead, w.LeadOf, w.Restore = time.Duration(3+i*7%5)*time.Hour, 4, time.Duration(10*w.RolledBck)*time.Minute
	}
	prod.Figures.Deployed, prod.Figures.Failed, prod.Figures.PerWeek = 40, 2, 3.4
	prod.Figures.Lead, prod.Figures.LeadOf, prod.Figures.Restore = 5*time.Hour, 48, 10*time.Minute
	prod.Open, prod.OpenWhy, prod.OpenNext = false, "outside of every window", f.Made.Add(20*time.Hour)
	return f
}

// found is a text if another one contains it, else that one.
func found(in, text string) string {
	if strings.Contains(in, text) {
		return text
	}
	return in
}
