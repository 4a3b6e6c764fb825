package site_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestAudit: the history says of each decision who took it, what it was, and why: approvals, freezes, halts, promotions
// that skip gates, rollbacks, exceptions of the policy, commits that were not merged. An app's page says how long its
// changes take to each environment.
func TestAudit(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Write("apps/shop/layers/environment/staging/values.yaml", "replicas: 7\n")
	d.repo.Commit("Seven replicas in staging")
	d.repo.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
	d.read(t)
	now := d.tip.Committer.When.Add(3 * time.Hour)
	look := func(environment, reason string, commands ...promote.Command) {
		t.Helper()
		d.h = d.repo.Hydrator(2)
		for range 6 { // carries out what it decides
			list, err := promote.Look(t.Context(), d.h, promote.Request{
				Trunk: d.tip, Now: now, Commands: commands,
				CommandPrefix: "sluice",
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if len(s.Refused) > 0 && s.Environment == environment {
					t.Fatalf("%s: the refused is %q", reason, s.Refused)
				}
			}
			now, commands = now.Add(10*time.Minute), nil
		}
	}
	order := func(environment string, kind rollout.EventKind, by, reason string, change func(*promote.Command)) {
		t.Helper()
		now = now.Add(time.Hour)
		c := promote.Command{
			Event:       rollout.Event{Kind: kind, By: by, Reason: reason, ID: reason, At: now},
			Environment: environment, CLI: true, Verb: string(kind),
		}
		if change != nil {
			change(&c)
		}
		look(environment, reason, c)
	}
	order("staging", rollout.EventPromote, "bob", "the shop is down", func(c *promote.Command) { c.Now = true })
	order("staging", rollout.EventRollback, "dan", "the prices are wrong",
		func(c *promote.Command) { c.Revision = d.repo.Git("rev-parse", "env/staging~1") })
	order("prod", rollout.EventFreeze, "ada", "the fair",
		func(c *promote.Command) { c.Until = now.Add(20 * time.Hour) })
	order("prod", rollout.EventUnfreeze, "ada", "the fair is over", nil)
	order("prod", rollout.EventHalt, "eve", "errors", nil)
	order("prod", rollout.EventResume, "eve", "fixed", nil)
	exception := d.repo.Git("commit-tree", "env/dev^{tree}", "-p", "env/dev", "-m",
		"Restart the shop\n\nSluice-Source: "+d.tip.Hash.String()+
			"\nSluice-Environment: dev\nSluice-Version: test\nSluice-Policy-Exception: latest-tag: the fix is late")
	unmerged := d.repo.Git("commit-tree", "env/dev~1^{tree}", "-p", exception, "-m", "Try a fix\n\nSluice-Source: "+
		d.tip.Hash.String()+"\nSluice-Environment: dev\nSluice-Version: test\nSluice-Unmerged: "+d.tip.Hash.String())
	d.repo.Git("update-ref", "refs/heads/env/dev", unmerged)
	f := d.read(t)
	got := text(pagesOf(t, f)["history.html"])
	for _, want := range []string{
		"override Promote", "skipped its gates: the shop is down", "bob", "rollback: the prices are wrong", "dan",
		"freeze until", "reason: the fair", "unfreeze", "reason: the fair is over",
		"halt; reason: errors eve", "resume; reason: fixed eve", "policy exception: latest-tag: the fix is late",
		"override Try a fix not merged; the trunk was at " + d.tip.Hash.String(),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the history lacks %q: %s", want, got)
		}
	}
	if dev, staging := f.Environments[0].Figures, f.Environments[1].Figures; dev.LeadOf != 0 || staging.LeadOf == 0 ||
		staging.Lead < 3*time.Hour {
		t.Errorf("lead time of dev %d × %s, of staging %d × %s", dev.LeadOf, dev.Lead, staging.LeadOf, staging.Lead)
	}
	if app := text(pagesOf(t, f)["apps/shop.html"]); !strings.Contains(app,
		"Age of promoted commits How old the oldest change was when it reached the environment") ||
		!strings.Contains(app, "staging 4 hours (1 promotion)") || strings.Contains(app, "prod 0 seconds") {
		t.Errorf("the app: %s", app)
	}
}

// TestAgeOfPartialPromotions: the figures of a promotion of one app measure the commits that it brings to that app, and
// not the commit of the other apps of the environment. A promotion whose source commit is newer than it is counted, not
// hidden.
func TestAgeOfPartialPromotions(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.read(t)
	first := d.tip.Committer.When
	change := func(replicas int, at time.Time) {
		t.Helper()
		d.repo.Write("apps/shop/layers/environment/staging/values.yaml", fmt.Sprintf("replicas: %d\n", replicas))
		d.repo.Commit("More replicas in staging")
		object := d.repo.Git("cat-file", "commit", "HEAD") + "\n"
		later := strings.ReplaceAll(object, strconv.FormatInt(first.Unix(), 10), strconv.FormatInt(at.Unix(), 10))
		d.repo.Git("update-ref", "refs/heads/main", d.repo.Pipe(later, "hash-object", "-t", "commit", "-w", "--stdin"))
		d.repo.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
		d.read(t)
	}
	change(7, first.Add(96*time.Hour))
	order := func(now time.Time) {
		t.Helper()
		d.h = d.repo.Hydrator(2)
		c := promote.Command{
			Event: rollout.Event{
				Kind: rollout.EventPromote, By: "bob", Reason: "now",
				ID: now.String(), At: now, Apps: []string{"shop"}, Now: true,
			}, Environment: "staging", CLI: true,
			Verb: "promote",
		}
		list, err := promote.Look(t.Context(), d.h, promote.Request{
			Trunk: d.tip, Now: now,
			Commands: []promote.Command{c}, CommandPrefix: "sluice",
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if len(s.Refused) > 0 {
				t.Fatalf("the refused is %q", s.Refused)
			}
		}
	}
	now := d.tip.Committer.When.Add(2 * time.Hour)
	order(now)
	f := d.read(t)
	staging := f.Environments[1]
	// the commits that the app lacked
	if age := now.Sub(first); staging.Figures.LeadOf != 2 || staging.Figures.Lead != age {
		t.Errorf("staging: %d × %s, expected %s; the source is %s", staging.Figures.LeadOf, staging.Figures.Lead, age,
			staging.Source)
	}
	if app := text(pagesOf(t, f)["apps/shop.html"]); !strings.Contains(app, "staging 2 hours (1 promotion) "+
		d.tip.Hash.String()[:10]+" 2 hours") {
		t.Errorf("the app: %s", app)
	}
	change(8, now.Add(300*time.Hour))
	order(now.Add(time.Hour))
	f = d.read(t)
	if s := f.Environments[1].Figures; s.LeadOf != 2 || s.LeadLacks != 1 {
		t.Errorf("staging: %d ages, %d unknown", s.LeadOf, s.LeadLacks)
	}
	if all := pagesOf(t, f); !strings.Contains(text(all["apps/shop.html"]), "(1 promotion and 1 of unknown age)") ||
		!strings.Contains(text(all["history.html"]), "4 days (without 1 promotion of unknown age)") {
		t.Error(text(all["apps/shop.html"]), text(all["history.html"]))
	}
}

// TestAgeOfBatch: a promotion brings several commits. The figures of the environment count each of them, and the page
// of an app the oldest of those that can change it.
func TestAgeOfBatch(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.read(t)
	first := d.tip.Committer.When
	commit := func(file, text string, at time.Time) string {
		t.Helper()
		d.repo.Write(file, text)
		d.repo.Commit("Change " + file)
		object := d.repo.Git("cat-file", "commit", "HEAD") + "\n"
		later := strings.ReplaceAll(object, strconv.FormatInt(first.Unix(), 10), strconv.FormatInt(at.Unix(), 10))
		hash := d.repo.Pipe(later, "hash-object", "-t", "commit", "-w", "--stdin")
		d.repo.Git("update-ref", "refs/heads/main", hash)
		return hash
	}
	commit("README.md", "nothing that a cluster reads\n", first.Add(10*time.Hour))
	shop := commit("apps/shop/layers/environment/staging/values.yaml", "replicas: 7\n", first.Add(20*time.Hour))
	commit("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n", first.Add(30*time.Hour))
	tip := commit("apps/shop/layers/environment/staging/values.yaml", "replicas: 8\n", first.Add(40*time.Hour))
	d.repo.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
	f := d.read(t)
	now := first.Add(44 * time.Hour)
	d.h = d.repo.Hydrator(2)
	c := promote.Command{Event: rollout.Event{
		Kind: rollout.EventPromote, By: "bob", Reason: "now", ID: "1", At: now,
		Now: true,
	}, Environment: "staging", CLI: true, Verb: "promote"}
	if _, err := promote.Look(t.Context(), d.h, promote.Request{
		Trunk: d.tip, Now: now, Commands: []promote.Command{c},
		CommandPrefix: "sluice",
	}); err != nil {
		t.Fatal(err)
	}
	earlier := f.Touched
	f = d.read(t)
	staging := f.Environments[1]
	if len(earlier) != 0 || len(f.Touched) != 5 || staging.Source.Commit != tip {
		t.Fatalf("%d and %d commits compared, staging runs %s", len(earlier), len(f.Touched), staging.Source)
	}
	if s := staging.Figures; s.LeadOf != 5 || s.LeadLacks != 0 || s.Lead != 24*time.Hour { // 44, 34, 24, 14 and 4 hours
		t.Errorf("staging: %d ages with the median %s, %d unknown", s.LeadOf, s.Lead, s.LeadLacks)
	}
	if app := text(pagesOf(t, f)["apps/shop.html"]); !strings.Contains(app, "staging 24 hours (1 promotion) "+shop[:10]+
		" 24 hours") {
		t.Errorf("the app: %s", app)
	}
}
