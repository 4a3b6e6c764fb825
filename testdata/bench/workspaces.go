package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	tenants    = 200
	tenantApps = 5
)

// tenancy measures fleets of workspaces.
type tenancy struct{ *bench }

// run measures the change of one workspace in a fleet of many, beside the same change in a fleet of one, and a look at
// many other repositories of which none moved.
func (b tenancy) run(clusters int) error {
	if err := b.beside(clusters); err != nil {
		return err
	}
	return b.pinned(tenants)
}

// Rounds of the change in each fleet. The two fleets take turns, so that other load on the machine affects both.
const (
	tenantWarm   = 3  // from the third run on, a clone has all that Sluice keeps in it
	tenantRounds = 15 // that count
	tenantFresh  = 5  // without what earlier runs kept in the clone, as in a job that clones anew
)

// tenantRuns are the runs of one fleet.
type tenantRuns struct {
	src                      string
	hydrations, diffs, fresh []measured
}

// beside hydrates a change of one app of one workspace.
func (b tenancy) beside(clusters int) error {
	fmt.Printf("\n== one workspace's change, 1 and %d workspaces × %d clusters × %d apps\n", tenants, clusters,
		tenantApps)
	sizes := []int{1, tenants}
	var fleets [2]tenantRuns
	for i, n := range sizes {
		fleets[i].src = filepath.Join(b.dir, fmt.Sprintf("tenants-%d", n))
		if err := tenantFleet(fleets[i].src, n, clusters); err != nil {
			return err
		}
		if err := repositories(b).publish(fleets[i].src); err != nil {
			return err
		}
		first, err := b.hydrate(fleets[i].src, "--push")
		if err != nil {
			return err
		}
		row(fmt.Sprintf("%d × first", n), first, fmt.Sprintf("%d targets", n*clusters*tenantApps))
	}
	for round := range tenantWarm + tenantRounds + tenantFresh {
		for i := range fleets {
			if err := b.tenantChange(&fleets[i], round); err != nil {
				return err
			}
		}
	}
	var of [3][2]measured // hydrations, diffs, hydrations of a fresh clone
	for i, n := range sizes {
		of[0][i], of[1][i], of[2][i] = middle(fleets[i].hydrations), middle(fleets[i].diffs), middle(fleets[i].fresh)
		for j, what := range []string{"one app's change", "its diff", "in a fresh clone"} {
			row(fmt.Sprintf("%d × %s", n, what), of[j][i], fmt.Sprintf("%.0f ms of processor time",
				milliseconds(of[j][i].cpu)))
		}
	}
	for j, what := range []string{"hydration", "diff", "hydration in a fresh clone"} {
		fmt.Printf("%s, among %d workspaces against alone: %.2f × (processor time %.2f ×) (to reach: 1.3)\n", what,
			tenants, ratio(of[j][1].wall, of[j][0].wall), ratio(of[j][1].cpu, of[j][0].cpu))
	}
	return nil
}

// tenantChange measures the hydration and the diff of a change in one workspace.
func (b tenancy) tenantChange(f *tenantRuns, round int) error {
	if err := b.edit(f.src, "workspaces/team-000/objects/app-1/c.yaml", tenantObject(1, round+1)); err != nil {
		return err
	}
	fresh := round >= tenantWarm+tenantRounds
	if fresh {
		if err := os.RemoveAll(filepath.Join(f.src, ".git", "sluice")); err != nil {
			return err
		}
	} else {
		d, err := b.command(f.src, b.sluice, "diff", "-q", "HEAD~1..HEAD", "-o", "markdown")
		if err != nil {
			return err
		}
		if round >= tenantWarm {
			f.diffs = append(f.diffs, d)
		}
	}
	m, err := b.hydrate(f.src, "--push")
	switch {
	case err != nil:
		return err
	case fresh:
		f.fresh = append(f.fresh, m)
	case round >= tenantWarm:
		f.hydrations = append(f.hydrations, m)
	}
	return nil
}

// middle returns the medians of runs of a command, each of its own order, and their largest memory.
func middle(runs []measured) measured {
	var wall, cpu []time.Duration
	var out measured
	for _, m := range runs {
		wall, cpu = append(wall, m.wall), append(cpu, m.cpu)
		out.peak = max(out.peak, m.peak)
	}
	out.wall, out.cpu = median(wall), median(cpu)
	return out
}

func tenantObject(app, version int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app-%d}\ndata: {version: \"%d\", greeting: hello}\n", app, version)
}

// tenantFleet writes a fleet of workspaces with apps of manifests.
func tenantFleet(dir string, workspaces, clusters int) error {
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: "
	files := map[string]string{"sluice.yaml": head +
		"Fleet\nmetadata: {name: bench}\nspec:\n  environments: [{name: prod}]\n"}
	var list strings.Builder
	for i := range clusters {
		fmt.Fprintf(&list, "---\n%sCluster\nmetadata: {name: c-%04d}\nspec: {environment: prod, kubeVersion: 1.33.2}\n",
			head, i)
	}
	files["clusters/all.yaml"] = list.String()
	for i := range workspaces {
		name := fmt.Sprintf("team-%03d", i)
		files["workspaces/"+name+".yaml"] = head + "Workspace\nmetadata: {name: " + name +
			"}\nspec: {clusters: {}, namespaces: [" + name + "], quotas: {objects: 100}}\n"
		for app := range tenantApps {
			files[fmt.Sprintf("workspaces/%s/apps/app-%d/app.yaml", name,
				app)] = fmt.Sprintf("%sApp\nmetadata: {name: app-%d}\nspec: {namespace: %s, placement: {}, source: {manifests: {path: objects/app-%d}}}\n", head, app, name, app)
			files[fmt.Sprintf("workspaces/%s/objects/app-%d/c.yaml", name, app)] = tenantObject(app, 0)
		}
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pinned looks at declared repositories of which none moved, as a sweep does.
func (b tenancy) pinned(repositories int) error {
	fmt.Printf("\n== %d other repositories, of which none moved since sluice.lock\n", repositories)
	s, err := b.site("pinned")
	if err != nil {
		return err
	}
	defer s.close()
	fleet := filepath.Join(s.dir, "fleet")
	files := map[string]string{
		"sluice.yaml":     "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: bench}\nspec: {environments: [{name: prod}]}\n",
		"clusters/c.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {environment: prod}\n",
	}
	if err := generate(filepath.Join(s.dir, "rival"), 1, 1, globalValues); err != nil {
		return err
	}
	if _, err := b.rival(filepath.Join(s.dir, "rival"), 1, 1); err != nil {
		return err
	}
	for i := range repositories {
		name := fmt.Sprintf("acme/other-%03d", i)
		src := s.work(name)
		if err := writeFiles(src, map[string]string{"c.yaml": tenantObject(i, 0)}); err != nil {
			return err
		}
		if err := s.add(name, src); err != nil {
			return err
		}
		files[fmt.Sprintf("repositories/other-%03d.yaml",
			i)] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: other-%03d}\nspec: {url: \"%s/%s.git\", branch: main}\n", i, s.git.URL, name)
	}
	if err := writeFiles(fleet, files); err != nil {
		return err
	}
	for _, args := range [][]string{{"-C", fleet, "init", "-q", "-b", "main"}, {"-C", fleet, "add", "-A"},
		{"-C", fleet, "commit", "-qm", "start"}} {
		if _, err := b.command("", "git", args...); err != nil {
			return err
		}
	}
	if _, err := b.command(fleet, b.sluice, "deps", "lock"); err != nil {
		return err
	}
	var asked []time.Duration
	for i := range 21 {
		m, err := b.command("", "git", "ls-remote", fmt.Sprintf("%s/acme/other-%03d.git", s.git.URL, i),
			"refs/heads/main")
		if err != nil {
			return err
		}
		asked = append(asked, m.wall)
	}
	one := median(asked)
	var took []time.Duration
	for range 3 {
		m, err := b.command(fleet, b.sluice, "deps", "outdated")
		if err != nil {
			return err
		}
		took = append(took, m.wall)
	}
	most := 10*b.helmOne + time.Duration(repositories)*one
	fmt.Printf("sluice deps outdated %.2f s; one git ls-remote %.3f s; %.2f of ten helm template and %d ls-remote (to reach: 1)\n",
		median(took).Seconds(), one.Seconds(), ratio(median(took), most), repositories)
	return nil
}
