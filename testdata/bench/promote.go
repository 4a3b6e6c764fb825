package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const promotedFleet = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: bench}
spec:
  layers: [environment, region, cluster]
  environments:
    - name: dev
    - name: prod
      after: [dev]
      promotion:
        mode: manual
        waves: [%s]
`

// waves are those of prod: a canary, then another tenth of the clusters each.
var waves = []string{"canary", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "rest"}

// declared returns the waves as in sluice.yaml.
func declared() string {
	var out []string
	for i, name := range waves {
		switch i {
		case 0:
			out = append(out, fmt.Sprintf("{name: %s, count: 10}", name))
		case len(waves) - 1:
			out = append(out, fmt.Sprintf("{name: %s}", name))
		default:
			out = append(out, fmt.Sprintf("{name: %s, percent: 10}", name))
		}
	}
	return strings.Join(out, ", ")
}

// promotions measures promotions into an environment of many clusters, and the cost of a check when nothing is due.
func (b *bench) promotions(clusters, apps int) error {
	fmt.Printf("\n== promotion from dev, 10 clusters, to prod, %d clusters × %d apps, in %d waves without bakes\n",
		clusters, apps, len(waves))
	s, err := b.site("promote")
	if err != nil {
		return err
	}
	defer s.close()
	const repo = "acme/promoted"
	src := s.work(repo)
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return err
	}
	if err := stages(src); err != nil {
		return err
	}
	if err := s.add(repo, src); err != nil {
		return err
	}
	if _, err := b.rival(src, clusters, apps); err != nil {
		return err
	}
	if _, err := b.hydrate(src, "--push"); err != nil {
		return err
	}
	if err := s.promote(repo, "the first, all rendered", clusters); err != nil {
		return err
	}
	if err := b.edit(src, "apps/app-05/layers/global/values.yaml", globalValues+"extra: changed\n"); err != nil {
		return err
	}
	if _, err := b.hydrate(src, "--push"); err != nil {
		return err
	}
	if err := s.promote(repo, "one app's global value", clusters); err != nil {
		return err
	}
	if err := b.idlePass(src, clusters, apps); err != nil {
		return err
	}
	return s.servedPass(repo)
}

// stages adds an earlier environment to the generated fleet.
func stages(src string) error {
	if err := os.WriteFile(filepath.Join(src, "sluice.yaml"), fmt.Appendf(nil, promotedFleet, declared()),
		0o644); err != nil {
		return err
	}
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: d-%02d\n  labels: {region: r%d}\nspec:\n  environment: dev\n  kubeVersion: 1.33.2\n  vars: {domain: d%d.example.com}\n", i, i%5, i)
	}
	return os.WriteFile(filepath.Join(src, "clusters", "dev.yaml"), []byte(text.String()), 0o644)
}

// promote runs a promotion to its end and reports when each branch moved on the server, from the times of the ref
// files.
func (s *site) promote(repo, what string, clusters int) error {
	src := s.work(repo)
	start := time.Now()
	m, err := s.b.command(src, s.b.sluice, "promote", "prod", "-q", "--by", "ada")
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(s.bare(repo), "refs/heads/env/prod"))
	if err != nil {
		return err
	}
	list, err := s.b.output(s.bare(repo), "git", "for-each-ref",
		"--format=%(refname) %(contents:trailers:key=Sluice-Wave,valueonly,separator=)", "refs/heads/cluster/c-*")
	if err != nil {
		return err
	}
	ends, counts, last := map[string]time.Time{}, map[string]int{}, info.ModTime()
	for line := range strings.Lines(list) {
		ref, wave, _ := strings.Cut(strings.TrimSpace(line), " ")
		moved, err := os.Stat(filepath.Join(s.bare(repo), ref))
		if err != nil {
			return err
		}
		if moved.ModTime().After(start) {
			counts[wave]++
			if moved.ModTime().After(ends[wave]) {
				ends[wave] = moved.ModTime()
			}
		}
	}
	moved := 0
	for _, wave := range waves {
		moved += counts[wave]
	}
	if moved != clusters {
		return fmt.Errorf("%d of %d cluster branches moved: %v", moved, clusters, counts)
	}
	row(what, m, fmt.Sprintf("%.1f × one helm template; the environment branch after %.2f s",
		ratio(m.wall, s.b.helmOne), last.Sub(start).Seconds()))
	for _, wave := range waves {
		fmt.Printf("  wave %-8s %4d clusters %8.2f s\n", wave, counts[wave], ends[wave].Sub(last).Seconds())
		last = ends[wave]
	}
	return nil
}

// idlePass compares a check of promotions when nothing is due with one `helm template` of the same chart, in turn.
func (b *bench) idlePass(src string, clusters, apps int) error {
	var ours, theirs, nothing []time.Duration
	var m measured
	for i := range 7 {
		t, err := b.template(src, i%clusters, i%apps)
		if err != nil {
			return err
		}
		theirs = append(theirs, t.wall)
		if m, err = b.command(src, b.sluice, "promote", "-q"); err != nil {
			return err
		}
		ours = append(ours, m.wall)
		if t, err = b.command(src, b.sluice, "--help"); err != nil {
			return err
		}
		nothing = append(nothing, t.wall)
	}
	m.wall, b.helmOne = median(ours), median(theirs)
	row("a look, nothing due", m,
		fmt.Sprintf("%.1f × one helm template of %.3f s (to reach: 10); `sluice --help` takes %.3f s",
			ratio(m.wall, b.helmOne), b.helmOne.Seconds(), median(nothing).Seconds()))
	return nil
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// servedPass measures the same check by the service, over HTTP, including its check of the hydration.
func (s *site) servedPass(repo string) error {
	const every = 5 * time.Second
	if err := s.start(every, repo); err != nil {
		return err
	}
	passes := func() (count, seconds float64) {
		count, err := s.metric("sluice_task_seconds_count", `kind="trunk"`, `result="ok"`)
		if err != nil {
			return 0, 0
		}
		seconds, _ = s.metric("sluice_task_seconds_sum", `kind="trunk"`, `result="ok"`)
		return count, seconds
	}
	if err := s.until("the service looked at the repository", 5*time.Minute,
		func() bool { n, _ := passes(); return n >= 2 }); err != nil {
		return err
	}
	const more = 6
	n, t := passes()
	if err := s.until("it looked again and again", time.Minute,
		func() bool { m, _ := passes(); return m >= n+more }); err != nil {
		return err
	}
	m, u := passes()
	each := time.Duration((u - t) / (m - n) * float64(time.Second))
	fmt.Printf("%-28s %8.2f s              %.1f × one helm template; mean of %.0f, over HTTP, hydration looked at too\n", "a look of the service", each.Seconds(), ratio(each, s.b.helmOne), m-n)
	return nil
}
